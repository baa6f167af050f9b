from __future__ import annotations

import pytest

from spectune.domain.errors import EngineFailure, FailureKind
from spectune.engines.common.failures import cause, diagnosed, tail

K = FailureKind
CAUSES = (
    cause(r"^special (\w+)", K.PORT_TAKEN, "{1} is taken, {1}", "Free {1}."),
    cause(r"first (\w+)", K.DRAFT_MODEL, "{2} after {1}", "+".join, then=r"^then (\w+)"),
    cause(r"(?:first|special) (\w+)?", K.EXITED, "general {1}"),
)


@pytest.mark.parametrize(
    ("log", "kind", "message", "advice"),
    [
        ("x\nspecial a\nspecial b", K.PORT_TAKEN, "a is taken, a", "Free a."),
        ("first a\nthen b\nspecial", K.DRAFT_MODEL, "b after a", "a+b"),
        ("then b\nfirst a", K.EXITED, "general a", "old advice"),
        ("first a then b", K.EXITED, "general a", "old advice"),
        ("special ", K.EXITED, "general ", "old advice"),
    ],
)
def test_the_first_cause_counts(log: str, kind: FailureKind, message: str, advice: str) -> None:
    found = diagnosed(EngineFailure(K.UNKNOWN, "it ended", "old advice", log), log, CAUSES)
    assert (found.kind, found.message, found.advice, found.log_tail) == (kind, message, advice, log)


def test_without_a_cause_it_is_the_same_failure() -> None:
    failure = EngineFailure(K.UNKNOWN, "it ended")
    assert diagnosed(failure, "nothing", CAUSES) is failure


def test_a_death_while_measuring_stays_one() -> None:
    found = diagnosed(EngineFailure(K.DIED_MEASURING, "it ended"), "special a", CAUSES)
    assert (found.kind, found.message) == (K.DIED_MEASURING, "it ended: a is taken, a")


def test_the_end_of_a_long_log_is_searched() -> None:
    assert tail(EngineFailure(K.EXITED, "", "", "first" + "x" * (1 << 20))) == "x" * (1 << 20)
