"""Workloads: what is asked of the server, and at which load levels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from spectune.domain.knobs import KnobValue


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation.

    Attributes:
        extra: further fields of the message, as the API spells them ("tool_calls", "tool_call_id").
    """

    role: str
    content: str
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to send.

    Attributes:
        id: stable across campaigns; the same id is the same text, so that arms can be paired by it.
        domain: what kind of text it is ("code_edit", "chat"); summaries are split by it.
        messages: the conversation so far.
        max_tokens: cap on the answer; the answer may end sooner by itself.
        session: prompts of one session are sent one after the other, each when the one before has been answered;
            "" is a session of its own.
        think_s: pause before this prompt once the one before it in the session has been answered, seconds.
        due_s: arrival in a recorded trace, seconds from the first prompt of the lane; None where there is no trace.
        fixed_length: end exactly at max_tokens (ignore_eos), because a recorded length is to be reproduced.
        extra: further fields of the request body ("tools", "response_format").
    """

    id: str
    domain: str
    messages: tuple[Message, ...]
    max_tokens: int
    session: str = ""
    think_s: float = 0.0
    due_s: float | None = None
    fixed_length: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters sent with every request.

    Attributes:
        temperature: None leaves the server's own default, which engines take from the model.
        top_p: likewise.
        seed: base seed; each request derives its own from it and from the prompt's id. None sends none.
        ignore_eos: forces fixed-length answers. It flatters speculation and is marked wherever it was used.
        extra: further body fields, as the engine spells them.
    """

    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = 1
    ignore_eos: bool = False
    extra: Mapping[str, KnobValue] = field(default_factory=dict)


class LevelKind(StrEnum):
    CONCURRENCY = "concurrency"
    RATE = "rate"


class Arrival(StrEnum):
    """How requests arrive in an open loop. The names are kept to what they claim."""

    CONSTANT = "constant"
    """Equal gaps."""
    POISSON = "poisson"
    """Exponential gaps."""
    GAMMA = "gamma"
    """Gamma-distributed gaps of the level's burstiness."""
    RAMP = "ramp"
    """Rising evenly from nothing to the level's rate over the time of the measurement, Poisson at each moment."""
    TRACE = "trace"
    """At the recorded times of the prompts; the level's value scales the speed of the trace."""


@dataclass(frozen=True, slots=True, order=True)
class Level:
    """A load level: so many requests in flight (closed loop), or so many arriving per second (open loop).

    Attributes:
        value: requests in flight, requests per second, or speed of a trace (2 replays it in half its time).
        arrival: open loop only.
        burstiness: squared coefficient of variation of the gaps of GAMMA arrivals; 1 is Poisson, larger is burstier.
    """

    value: float
    kind: LevelKind = LevelKind.CONCURRENCY
    arrival: Arrival = Arrival.POISSON
    burstiness: float = 1.0

    @property
    def users(self) -> int:
        """Requests in flight at a closed-loop level.

        Raises:
            ValueError: at an open-loop level, where the number in flight is a result.
        """
        if self.kind is not LevelKind.CONCURRENCY:
            raise ValueError("an open-loop level has no fixed number of users")
        return int(self.value)

    @property
    def label(self) -> str:
        if self.kind is LevelKind.RATE:
            if self.arrival is Arrival.TRACE:
                return f"trace at {self.value:g}x"
            return f"{self.value:g} req/s {self._arrivals}"
        return "1 user" if self.value == 1 else f"{self.value:g} users"

    @property
    def key(self) -> str:
        """Short and unique: "c4", "r2.5" (Poisson), "r2.5constant", "r2.5gamma4"."""
        if self.kind is LevelKind.CONCURRENCY:
            return f"c{self.value:g}"
        return f"r{self.value:g}" + ("" if self.arrival is Arrival.POISSON else self._arrivals.replace(" ", ""))

    @property
    def _arrivals(self) -> str:
        return f"gamma {self.burstiness:g}" if self.arrival is Arrival.GAMMA else self.arrival.value


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement to make on a deployment: a level under one sampling. Every trial measures the same cells."""

    level: Level
    sampling: Sampling

    @property
    def key(self) -> str:
        """Identifies the cell within a campaign: "c1 T0.7"."""
        temperature = "default" if self.sampling.temperature is None else f"{self.sampling.temperature:g}"
        return f"{self.level.key} T{temperature}"

    @property
    def label(self) -> str:
        temperature = self.sampling.temperature
        return f"{self.level.label}, " + (
            "model's own sampling" if temperature is None else f"temperature {temperature:g}"
        )


ENDLESS = 1_000_000_000
"""Stands for the number of prompts of a source that makes them as they are needed."""


@dataclass(frozen=True, slots=True)
class WorkloadInfo:
    """What the ledger keeps of a workload.

    Attributes:
        name: "builtin" or the file it came from.
        sha256: of everything that determines the prompts and their order.
        prompts: distinct prompts it can deal; ENDLESS where they are made as they are needed.
        domains: domain -> number of distinct prompts.
        notes: what a reader must know ("12 bad lines skipped: 4, 9, ...").
    """

    name: str
    sha256: str
    prompts: int
    domains: Mapping[str, int]
    notes: tuple[str, ...] = ()

    @property
    def amount(self) -> str:
        """How many prompts there are, in words."""
        if self.prompts >= ENDLESS:
            return "as many prompts as needed"
        return f"{self.prompts} prompt{'s' * (self.prompts != 1)}"


MADE_SOURCES = ("builtin", "agentic", "repetitive", "synthetic")
"""Workloads that need no file."""

FILE_FORMATS = ("jsonl", "sharegpt", "mooncake", "azure", "burstgpt")
"""Formats of workload files, as written in front of a path."""

_FILE_OF_LENGTHS = re.compile(r"file\(([^)]*)\)")


def split_source(source: str) -> tuple[str, str]:
    """A workload's source as written -> (kind, rest).

    The kind is one of MADE_SOURCES with its options as rest, one of FILE_FORMATS with a path as rest, or "" with the
    path of a file whose format is to be found out.
    """
    kind, colon, rest = source.partition(":")
    if kind in MADE_SOURCES or (colon and kind in FILE_FORMATS):
        return kind, rest
    return "", source


def source_with_paths(source: str, absolute: Callable[[str], str]) -> str:
    """The same source with every path in it replaced by what `absolute` makes of it."""
    kind, rest = split_source(source)
    if kind in MADE_SOURCES:
        return _FILE_OF_LENGTHS.sub(lambda found: f"file({absolute(found[1].strip())})", source)
    return f"{kind}:{absolute(rest)}" if kind else absolute(rest)
