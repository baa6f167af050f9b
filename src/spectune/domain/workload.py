"""Workloads: what is asked of the server, and at which load levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from spectune.domain.knobs import KnobValue


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to send.

    Attributes:
        id: stable across campaigns; the same id is the same text, so that arms can be paired by it.
        domain: what kind of text it is ("code_edit", "chat"); summaries are split by it.
        messages: the conversation so far.
        max_tokens: cap on the answer; the answer may end sooner by itself.
    """

    id: str
    domain: str
    messages: tuple[Message, ...]
    max_tokens: int


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


@dataclass(frozen=True, slots=True, order=True)
class Level:
    """A load level: so many requests in flight (closed loop), or so many arriving per second (open loop)."""

    value: float
    kind: LevelKind = LevelKind.CONCURRENCY

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
            return f"{self.value:g} req/s"
        return "1 user" if self.value == 1 else f"{self.value:g} users"


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement to make on a deployment: a level under one sampling. Every trial measures the same cells."""

    level: Level
    sampling: Sampling

    @property
    def key(self) -> str:
        """Identifies the cell within a campaign: "c1 T0.7"."""
        prefix = "c" if self.level.kind is LevelKind.CONCURRENCY else "r"
        temperature = "default" if self.sampling.temperature is None else f"{self.sampling.temperature:g}"
        return f"{prefix}{self.level.value:g} T{temperature}"

    @property
    def label(self) -> str:
        temperature = self.sampling.temperature
        return f"{self.level.label}, " + (
            "model's own sampling" if temperature is None else f"temperature {temperature:g}"
        )


@dataclass(frozen=True, slots=True)
class WorkloadInfo:
    """What the ledger keeps of a workload.

    Attributes:
        name: "builtin" or the file it came from.
        sha256: of everything that determines the prompts and their order.
        prompts: distinct prompts it can deal.
        domains: domain -> number of distinct prompts.
        notes: what a reader must know ("12 bad lines skipped: 4, 9, ...").
    """

    name: str
    sha256: str
    prompts: int
    domains: Mapping[str, int]
    notes: tuple[str, ...] = ()
