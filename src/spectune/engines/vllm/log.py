"""What vLLM's own log says about the settings and the room it runs with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from spectune.domain.deployment import Adjustment
from spectune.engines.common.adjustments import adjustment
from spectune.engines.common.reprs import fields
from spectune.engines.vllm.adjustments import SENTENCES, worth_telling

MAX_WARNINGS = 40
_LONG = 2000
"""Characters of messages that are a dump rather than a sentence: of the configuration, which is read, or of the state
of a dying engine, which is not."""

_GIB = 1 << 30

_COLOUR = re.compile(r"\x1b\[[\d;]{0,12}m")
_STAMPED = re.compile(
    r"(?:\((?P<who>[\w.-]{1,80})(?: pid=\d{1,10})?\) )?(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) "
    r"\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})? \[[^\]\s]{1,120}\] (?P<message>.*)"
)
"""Since 0.32 the logger writes which process speaks; before, a wrapper around stdout does. Either may be missing."""

_BUSY = ("Engine 0", "SpecDecoding metrics", "Route:", "Received request")
_NUMBER = r"(\d{1,3}(?:,\d{3}){1,5}|\d{1,15})"
_SIZE = r"(\d{1,9}(?:\.\d{1,12})?)"

_ARGS = re.compile(r"non-default args: (?=\{)")
_CONFIG = re.compile(r"Initializing a V1 LLM engine \(v([\w.+-]{1,60})\) with config: ")
_BANNER = re.compile(r"\bversion ([0-9][\w.+-]{0,60})$")
_KV = re.compile(rf"\w[\w +]{{0,40}} KV cache size: {_NUMBER} tokens")
_CONTEXT = re.compile(rf"Maximum concurrency for {_NUMBER} tokens per request: {_SIZE}x")
_KV_MEMORY = re.compile(rf"Available KV cache memory: {_SIZE} GiB")
_KV_SET = re.compile(rf"Explicitly set \({_SIZE}/{_SIZE}\) GiB for KV cache")
_WEIGHTS = re.compile(rf"Model loading took {_SIZE} GiB")
_GRAPHS = re.compile(rf"Graph capturing finished in .{{1,20}} secs?, took {_SIZE} GiB")
_RUNNER_V2 = re.compile(r"Using V2 Model Runner")
_RUNNER_V1 = re.compile(r"(?:using|because) the V1 model runner")
_ASYNC_OFF = re.compile(r"Async scheduling .{0,200}disabled")
_ASYNC = re.compile(r"Asynchronous scheduling is (enabled|disabled)")
_GRAPH_MODE = re.compile(
    r"(?:setting cudagraph_mode=|(?:[Oo]verriding|Setting) cudagraph_mode (?:(?:from )?\w{1,40} )?to |"
    r"Overriding to CUDAGraphMode\.)(\w{1,40})"
)
_KERNELS = re.compile(
    r"Using .{1,100} (?:attention )?backend|Using .{1,60}KV cache layout|Using default MoE config|"
    r"Using configuration from .{1,300}\.json"
)


@dataclass(slots=True)
class LogFacts:
    """What a log tells. Everything is absent until it is read.

    Attributes:
        args: settings that were given and are no defaults.
        config: of the engine, as its processes got it.
        version: vLLM's.
        memory: part -> process -> GiB.
        kv_tokens: process -> tokens; one process for each copy of the model.
        context: longest request.
        runner: "V1" or "V2".
        async_scheduling: whether it is on, where a line says so.
        graph_mode: of CUDA graphs, where it was changed after the configuration was made.
        notes: facts about kernels.
    """

    args: Mapping[str, object] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)
    version: str | None = None
    memory: dict[str, dict[str, float]] = field(default_factory=dict)
    kv_tokens: dict[str, int] = field(default_factory=dict)
    context: int | None = None
    runner: str | None = None
    async_scheduling: bool | None = None
    graph_mode: str | None = None
    warnings: tuple[str, ...] = ()
    adjustments: tuple[Adjustment, ...] = ()
    notes: tuple[str, ...] = ()

    def bytes_by_part(self, processes: int) -> dict[str, int]:
        """Memory on all devices together. A part that only some processes tell is taken to be alike on the rest."""
        return {
            part: round(sum(told.values()) / len(told) * max(processes, len(told)) * _GIB)
            for part, told in self.memory.items()
            if told
        }


def read_log(text: str) -> LogFacts:
    """Reads a log from its first line. Never raises; text that is no vLLM log tells nothing."""
    facts = LogFacts()
    warnings: dict[str, None] = {}
    adjustments: dict[str, Adjustment] = {}
    notes: dict[str, None] = {}
    for who, level, message in messages(text):
        if level not in {"INFO", "WARNING"}:
            continue
        _take(facts, who, message)
        if len(message) >= _LONG:
            continue
        if _KERNELS.match(message):
            notes[message] = None
        elif changed := adjustment(message, SENTENCES):
            adjustments.setdefault(changed.name, changed)
        elif level == "WARNING" and len(warnings) < MAX_WARNINGS and worth_telling(message):
            warnings[message] = None
    facts.warnings, facts.notes = tuple(warnings), tuple(notes)
    facts.adjustments = tuple(adjustments.values())
    return facts


def messages(text: str) -> Iterator[tuple[str, str, str]]:
    """(process, level, message) of every line that vLLM's logger wrote, tracebacks within it included.

    A line may follow a progress bar. What has no stamp (other libraries, tracebacks that end a process) is passed over.
    """
    for raw in text.splitlines():
        line = _COLOUR.sub("", raw) if "\x1b" in raw else raw
        match = _STAMPED.match(line) or _STAMPED.search(line)
        if match is None:
            continue
        message = match["message"].strip()
        if message and not message.startswith(_BUSY):
            yield match["who"] or "", match["level"], message


def engine_config(text: str) -> Mapping[str, object]:
    """The engine's configuration, which vLLM writes as `model='/m', dtype=torch.bfloat16, ...`."""
    return fields(f"({text})")


def _take(facts: LogFacts, who: str, message: str) -> None:
    for pattern, take in _READERS if len(message) < _LONG else _LONG_READERS:
        if match := pattern.search(message):
            take(facts, who, match)


def _add(facts: LogFacts, part: str, who: str, gib: str) -> None:
    facts.memory.setdefault(part, {})[who] = float(gib)


def _take_args(facts: LogFacts, _: str, match: re.Match[str]) -> None:
    facts.args = facts.args or fields(match.string[match.end() :])


def _take_config(facts: LogFacts, _: str, match: re.Match[str]) -> None:
    facts.config = facts.config or engine_config(match.string[match.end() :])
    facts.version = match[1]


def _take_banner(facts: LogFacts, _: str, match: re.Match[str]) -> None:
    facts.version = facts.version or match[1]


def _take_kv(facts: LogFacts, who: str, match: re.Match[str]) -> None:
    facts.kv_tokens.setdefault(who, _whole(match[1]))


def _take_context(facts: LogFacts, _: str, match: re.Match[str]) -> None:
    facts.context = _whole(match[1])


def _take_kv_memory(facts: LogFacts, who: str, match: re.Match[str]) -> None:
    _add(facts, "kv", who, match[1])


def _take_weights(facts: LogFacts, who: str, match: re.Match[str]) -> None:
    _add(facts, "weights", who, match[1])


def _take_graphs(facts: LogFacts, who: str, match: re.Match[str]) -> None:
    _add(facts, "graphs", who, match[1])


def _take_v1(facts: LogFacts, _: str, match: re.Match[str]) -> None:
    facts.runner = "V1"


def _take_v2(facts: LogFacts, _: str, match: re.Match[str]) -> None:
    facts.runner = "V2"


def _take_async_off(facts: LogFacts, _: str, match: re.Match[str]) -> None:
    facts.async_scheduling = False


def _take_async(facts: LogFacts, _: str, match: re.Match[str]) -> None:
    facts.async_scheduling = match[1] == "enabled"


def _take_graph_mode(facts: LogFacts, _: str, match: re.Match[str]) -> None:
    facts.graph_mode = match[1].lower()


def _whole(text: str) -> int:
    return int(text.replace(",", ""))


_Readers = tuple[tuple[re.Pattern[str], Callable[[LogFacts, str, re.Match[str]], None]], ...]
_LONG_READERS: _Readers = ((_ARGS, _take_args), (_CONFIG, _take_config))
_READERS: _Readers = (
    *_LONG_READERS,
    (_BANNER, _take_banner),
    (_KV, _take_kv),
    (_CONTEXT, _take_context),
    (_KV_MEMORY, _take_kv_memory),
    (_KV_SET, _take_kv_memory),
    (_WEIGHTS, _take_weights),
    (_GRAPHS, _take_graphs),
    (_RUNNER_V1, _take_v1),
    (_RUNNER_V2, _take_v2),
    (_ASYNC_OFF, _take_async_off),
    (_ASYNC, _take_async),
    (_GRAPH_MODE, _take_graph_mode),
)
