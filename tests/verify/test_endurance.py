"""Surviving the load."""

from __future__ import annotations

import pytest

from spectune.domain.deployment import Counters, Exit, ListenerOwner
from spectune.domain.finding import Status
from spectune.domain.measurement import Outcome
from spectune.verify import endurance
from spectune.verify.observed import Observed
from tests.verify.builders import asked, cell, evidence, loaded, record

OK, VIOLATED, UNKNOWN = Status.OK, Status.VIOLATED, Status.UNKNOWN
RISING = cell(counters=(Counters(output_tokens=10), Counters(output_tokens=90)), started=1.0)
LATER = cell(counters=(Counters(output_tokens=90, drafted=1), Counters(output_tokens=95)), started=2.0)
FALLING = cell(counters=(Counters(output_tokens=90), Counters(output_tokens=10)))
ANEW = cell(counters=(Counters(output_tokens=0), Counters(output_tokens=80)), started=2.0)


@pytest.mark.parametrize(
    ("observed", "status"),
    [
        (loaded(RISING), OK),
        (loaded(LATER, RISING), OK),
        (loaded(cell()), OK),
        (loaded(FALLING), VIOLATED),
        (loaded(RISING, ANEW), VIOLATED),
        (loaded(RISING, base=evidence(exit=Exit(139, "Segmentation fault"))), VIOLATED),
        (loaded(RISING, base=evidence(listener=ListenerOwner.NONE, pages={})), UNKNOWN),
        (loaded(FALLING, base=evidence(listener=ListenerOwner.NONE, pages={})), VIOLATED),
    ],
)
def test_survived(observed: Observed, status: Status) -> None:
    assert endurance.survived(asked(), observed).status is status


@pytest.mark.parametrize(
    ("requests", "status"),
    [
        ({Outcome.OK: 100}, OK),
        ({Outcome.OK: 99, Outcome.RESET: 1}, OK),
        ({Outcome.OK: 98, Outcome.RESET: 1, Outcome.HTTP_ERROR: 1}, VIOLATED),
        ({Outcome.OK: 10, Outcome.TIMEOUT_IDLE: 1}, VIOLATED),
        ({Outcome.OK: 10, Outcome.CANCELLED: 4}, OK),
        ({Outcome.CANCELLED: 4}, UNKNOWN),
        ({}, UNKNOWN),
    ],
)
def test_failures(requests: dict[Outcome, int], status: Status) -> None:
    assert endurance.no_failures(asked(), loaded(cell(requests=requests))).status is status


def test_failures_add_up_over_cells_and_are_named() -> None:
    found = endurance.no_failures(asked(), loaded(cell(), cell(requests={Outcome.RESET: 3})))
    assert found.status is VIOLATED
    assert found.seen == "3 of 103 failed (reset: 3)"


def in_order(*outcomes: Outcome) -> Observed:
    """One cell whose requests were sent in this order and ended so; their records are kept in another."""
    records = [record(f"p{n}", outcome=outcome, sent=n) for n, outcome in enumerate(outcomes)]
    return loaded(cell(records=tuple(reversed(records))))


@pytest.mark.parametrize(
    ("observed", "status"),
    [
        (in_order(Outcome.OK, Outcome.OK, Outcome.OK), OK),
        (in_order(Outcome.OK, Outcome.TIMEOUT_FIRST, Outcome.OK), OK),
        (in_order(Outcome.OK, Outcome.OK, Outcome.TIMEOUT_FIRST), OK),
        (in_order(Outcome.OK, Outcome.TIMEOUT_FIRST, Outcome.TIMEOUT_IDLE), VIOLATED),
        (in_order(Outcome.OK, Outcome.TIMEOUT_FIRST, Outcome.TIMEOUT_FIRST, Outcome.CANCELLED), VIOLATED),
        (in_order(Outcome.OK, Outcome.HTTP_ERROR, Outcome.HTTP_ERROR), OK),
        (in_order(Outcome.CANCELLED), UNKNOWN),
        (loaded(), UNKNOWN),
    ],
)
def test_sustained(observed: Observed, status: Status) -> None:
    assert endurance.sustained(asked(), observed).status is status


def test_a_hang_says_after_how_many_answers() -> None:
    found = endurance.sustained(asked(), in_order(*[Outcome.OK] * 7, *[Outcome.TIMEOUT_FIRST] * 3))
    assert found.seen == "no answer to the last 3 of 10 requests: it hangs after 7"
