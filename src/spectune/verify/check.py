"""What a check is: a question with its reason, and a pure function that answers it in three values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from spectune.domain.asked import Asked
from spectune.domain.finding import Finding, Status
from spectune.verify.observed import Observed


class Stage(StrEnum):
    """When a check can be made: once the server is ready, once it has answered the probes, after the
    load, once it has been stopped."""

    START = "start"
    ANSWERS = "answers"
    LOAD = "load"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Result:
    """What one look found.

    Attributes:
        status: of the question.
        asked, seen: for people.
        advice: what to do in this very case; empty takes the check's general advice.
    """

    status: Status
    asked: str
    seen: str
    advice: str = ""


def ok(asked: str, seen: str) -> Result:
    return Result(Status.OK, asked, seen)


def violated(asked: str, seen: str, advice: str = "") -> Result:
    return Result(Status.VIOLATED, asked, seen, advice)


def unknown(asked: str, seen: str, advice: str = "") -> Result:
    return Result(Status.UNKNOWN, asked, seen, advice)


def worst(results: Iterable[Result]) -> Result:
    """One result out of several: the worst status, with the words of those that have it.

    Raises:
        ValueError: when there are none.
    """
    parts = list(results)
    if not parts:
        raise ValueError("no results to join")
    found = {part.status for part in parts}
    status = next(s for s in (Status.VIOLATED, Status.UNKNOWN, Status.OK) if s in found)
    chosen = [part for part in parts if part.status is status]
    return Result(
        status,
        _joined(part.asked for part in chosen),
        _joined(part.seen for part in chosen),
        next((part.advice for part in chosen if part.advice), ""),
    )


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(text for text in texts if text))


def always(asked: Asked) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Check:
    """One question about a deployment.

    Attributes:
        name: stable, in findings and reports ("speculation-live").
        stage: when it can be asked.
        asks: the question.
        why: why the answer matters.
        violation: what violates it.
        advice: what to do then.
        look: answers it; must not raise on anything an engine may print.
        blocks: whether a violation forbids measuring; otherwise it forbids promotion only.
        applies: whether the question makes sense for a candidate; where it does not, there is no finding.
    """

    name: str
    stage: Stage
    asks: str
    why: str
    violation: str
    advice: str
    look: Callable[[Asked, Observed], Result]
    blocks: bool = True
    applies: Callable[[Asked], bool] = always

    def __call__(self, asked: Asked, observed: Observed) -> Finding:
        """The finding about one deployment. What is unknown never forbids measuring."""
        result = self.look(asked, observed)
        if result.status is Status.OK:
            return Finding(self.name, Status.OK, result.asked, result.seen, blocks_measurement=self.blocks)
        blocks = self.blocks and result.status is Status.VIOLATED
        advice = result.advice or self.advice
        return Finding(self.name, result.status, result.asked, result.seen, self.why, advice, blocks)
