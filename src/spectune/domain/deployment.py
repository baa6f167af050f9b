"""Deployments: a candidate running somewhere, what was read back from it, and what it runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from spectune.domain.candidate import Method
from spectune.domain.knobs import KnobValue, Settings


@dataclass(frozen=True, slots=True)
class Service:
    """What is tuned: an engine with its model and its command line as it is today.

    Attributes:
        engine: adapter name ("llama.cpp").
        binary: absolute path of the server program.
        model: absolute path of the model.
        args: the service's own settings, in the engine's spelling without leading dashes; candidates change these.
        env: extra environment of the server process.
        entry: words between the program and its flags ("-m", "sglang.launch_server"); empty where there are none.
        host, port: where it will listen.
        model_id: name under which the server is asked for the model.
        ready_timeout_s: give up on readiness after this long without progress in the log.
        folder: where files that a command line names are put; for a service it must outlive a reboot.
    """

    engine: str
    binary: str
    model: str
    args: Settings
    env: Mapping[str, str]
    host: str
    port: int
    model_id: str
    ready_timeout_s: float = 600.0
    entry: tuple[str, ...] = ()
    folder: str = "/tmp"

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Translation:
    """A difference between asked and effective setting that is allowed, because the engine means the same by it.

    Attributes:
        name: canonical knob name.
        asked, seen: the two values; None stands for any value.
        because: for people, why both are the same thing.
    """

    name: str
    asked: KnobValue | None
    seen: KnobValue | None
    because: str


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a candidate and where to look once it runs. Pure text, made by an engine adapter.

    Attributes:
        argv: the whole command line.
        env: variables to add to the environment.
        url: base URL of the endpoint, without /v1.
        ready_path: answers 200 when the model is loaded.
        probe_paths: pages to fetch as evidence once ready.
        counters_path: page with the server's counters, None where the engine has none.
        model_id: what /v1/models must name.
        ready_timeout_s: give up after this long without a new log line.
        headers: for every request, the API key among them.
        unset: variables of this process that the server must not inherit; a trailing * stands for any ending.
        keep_alive: whether a connection may carry another request after a stream; some servers close it without a word.
        translations: values that may read back differently and mean the same.
        files: path -> text of the files that the command line names and that must be there before the start. Their
            names tell their content, so that none is ever changed.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    url: str
    ready_path: str
    probe_paths: tuple[str, ...]
    counters_path: str | None
    model_id: str
    ready_timeout_s: float = 600.0
    keep_alive: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    translations: tuple[Translation, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """One fetched page; status 0 means that nothing answered."""

    status: int
    body: str


class ListenerOwner(StrEnum):
    """Whose process listens on the endpoint's port."""

    OURS = "ours"
    FOREIGN = "foreign"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Exit:
    """How a server process ended: code as the shell sees it (negative = signal), and the end of its log."""

    code: int
    log_tail: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything observed of a running (or dead) server, raw. Engine adapters read it; nothing is interpreted yet.

    Attributes:
        log: the server's output of this start, from its first line.
        pages: path -> page, for the launch's probe paths.
        listener: whose process holds the port.
        started_unix: when the process started, seconds since the epoch, None where it is not known.
        exit: set when the process has ended.
        rss_bytes: resident memory of the process tree, None where it is not known.
    """

    log: str
    pages: Mapping[str, Page]
    listener: ListenerOwner
    started_unix: float | None = None
    exit: Exit | None = None
    rss_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Counters:
    """The server's own cumulative counters at one moment; None where the engine has no such counter.

    Attributes:
        output_tokens: tokens generated for finished requests.
        prompt_tokens: prompt tokens computed (cached ones excluded).
        cached_tokens: prompt tokens taken from the prefix cache.
        drafts: verify steps that had a draft.
        drafted: tokens drafted.
        accepted: drafted tokens accepted (bonus token not counted).
        accepted_per_position: accepted at draft position 1, 2, ...
    """

    output_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    drafts: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    accepted_per_position: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Capacity:
    """Room of a deployment. None where the engine does not tell.

    Attributes:
        kv_tokens: tokens that fit into the KV cache, over all requests.
        max_running: requests that run at the same time.
        context_per_request: most tokens of one request, prompt and answer.
        kv_bytes: memory of the KV cache, draft model's included where it is separate.
        graph_requests: most requests in a decode step that a captured graph covers; larger steps run without one.
        memory: part ("weights", "draft weights", "kv", "state", "graphs") -> bytes, as far as the engine tells.
    """

    kv_tokens: int | None = None
    max_running: int | None = None
    context_per_request: int | None = None
    kv_bytes: int | None = None
    graph_requests: int | None = None
    memory: Mapping[str, int] = field(default_factory=dict)


class Meaning(StrEnum):
    """What an engine's adjustment does to the comparison of candidates."""

    SAME = "same"
    """Another spelling of what was asked."""
    CHANGED = "changed"
    """Something else runs than was asked or expected; it is measured, and must be known to whoever reads the result."""
    INVALID = "invalid"
    """What runs is not the candidate any more."""


@dataclass(frozen=True, slots=True)
class Adjustment:
    """A setting that the engine says it has changed by itself.

    Attributes:
        name: stable key ("max-running-requests-reset").
        text: the engine's own words, without time stamp.
        meaning: what it does to the comparison.
        because: for people, what the engine did and why it matters.
        advice: what to write to get what was meant; empty when SAME.
    """

    name: str
    text: str
    meaning: Meaning
    because: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What an engine adapter reads from evidence.

    Attributes:
        speculating: whether speculation is really initialised; None where it can't be told.
        method: method that is live; None where it can't be told.
        depth: effective k; None where it can't be told.
        settings: effective settings by canonical knob name; absent where not told.
        sources: knob name -> where it was read ("GET /slots", "log"); the keys "speculating", "method", "depth",
            "model" and "capacity" may be present too.
        model: model the server says it serves (path or id).
        model_id: id in /v1/models.
        version: the engine's version as it tells it.
        capacity: room.
        warnings: log lines that change or question a setting, as written, without time stamps.
        counters: None where the counters page was not among the evidence or could not be read.
        adjustments: settings that the server changed by itself, each by name; not among the warnings.
        notes: facts worth keeping that are no settings ("MoE kernels: default configuration for E=256,N=256").
        invalid_output: set when the server says that its output is not valid (simulated acceptance, dummy weights).
        invented_text: whether the text is none of the model's (forced acceptance, dummy weights), so that answers
            can't be compared.
    """

    speculating: bool | None = None
    method: Method | None = None
    depth: int | None = None
    settings: Settings = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    model_id: str | None = None
    version: str | None = None
    capacity: Capacity = field(default_factory=Capacity)
    warnings: tuple[str, ...] = ()
    counters: Counters | None = None
    adjustments: tuple[Adjustment, ...] = ()
    notes: tuple[str, ...] = ()
    invalid_output: str | None = None
    invented_text: bool = False


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine a trial ran on."""

    hostname: str
    cpu: str
    cores: int
    memory_bytes: int
    gpus: tuple[str, ...] = ()
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A candidate running, as the ledger keeps it. Secrets in argv and env are replaced by "***".

    Attributes:
        argv, env, url: as launched.
        pid: of the server process.
        ready_s: from start to readiness, seconds.
        load_average: 1-minute load average of the host just before the start.
        seen: what was read back.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    url: str
    pid: int
    started_unix: float
    ready_s: float
    load_average: float
    seen: Seen
