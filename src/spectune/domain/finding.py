"""Findings: the three-valued results of checks on a deployment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    OK = "ok"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        check: stable name ("speculation-live").
        status: not found in the evidence is UNKNOWN, never OK.
        asked: what was wanted, for people.
        seen: what was found, for people.
        why: why it matters; empty when OK.
        advice: what to do; empty when OK.
        blocks_measurement: a violation makes the trial INVALID; otherwise it is shown and blocks promotion only.
    """

    check: str
    status: Status
    asked: str
    seen: str
    why: str = ""
    advice: str = ""
    blocks_measurement: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a server to a probe prompt, greedy unless the prompt says otherwise.

    Attributes:
        score: of a task, from 0 (wrong) to 1 (right); None for what is not marked.
    """

    prompt_id: str
    text: str
    finish_reason: str | None = None
    error: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """The greedy answers of one server to the probe prompts, asked once.

    Attributes:
        users: requests in flight while asking.
        answers: in the prompts' order.
    """

    users: int
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Verification:
    """All findings about one deployment."""

    findings: tuple[Finding, ...] = ()

    @property
    def invalid_because(self) -> Finding | None:
        """The first violation that forbids measuring."""
        return next((f for f in self.findings if f.status is Status.VIOLATED and f.blocks_measurement), None)

    @property
    def proven(self) -> bool:
        """Whether every check is ok, which promotion demands."""
        return bool(self.findings) and all(f.status is Status.OK for f in self.findings)

    def __add__(self, other: Verification) -> Verification:
        return Verification(self.findings + other.findings)
