"""Every check there is ends as its cases say: ok, violated and unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.finding import Status
from spectune.verify.catalogue import CHECKS
from spectune.verify.check import Check
from tests.verify.cases.case import Case
from tests.verify.cases.table import CASES, NEVER, uncovered

ALL = [
    pytest.param(check, case, id=f"{check.name}-{number}-{case.status}")
    for check in CHECKS
    for number, case in enumerate(CASES.get(check.name, ()), 1)
]


def test_every_check_has_a_case_for_each_end() -> None:
    assert uncovered(CHECKS, CASES, NEVER) == []


def test_what_is_missing_is_named() -> None:
    fresh = replace(CHECKS[0], name="a-new-check")
    first = CHECKS[0].name
    assert uncovered([*CHECKS, fresh], CASES, NEVER) == [
        "a-new-check: no case for ok", "a-new-check: no case for unknown", "a-new-check: no case for violated",
    ]  # fmt: skip
    without = {**CASES, first: tuple(case for case in CASES[first] if case.status is not Status.VIOLATED)}
    assert uncovered(CHECKS, without, NEVER) == [f"{first}: no case for violated"]
    assert uncovered(CHECKS, {**CASES, "gone": ()}, NEVER) == ["gone: cases of no check"]
    excuse = (first, Status.OK)
    assert uncovered(CHECKS, CASES, [*NEVER, excuse]) == [f"{first}: a case for ok, which it is said never to end in"]


def test_what_never_happens_is_said_on_the_page_too() -> None:
    said = {(check.name, Status.VIOLATED) for check in CHECKS if check.violation.startswith("never")}
    assert NEVER.keys() == said
    assert all(NEVER.values())


@pytest.mark.parametrize(("check", "case"), ALL)
def test_a_case_ends_as_it_says(check: Check, case: Case) -> None:
    assert check.applies(case.asked), "the gate would not ask"
    found = check(case.asked, case.observed)
    assert found.status is case.status, found.seen
    assert case.says in found.seen
    assert found.asked
    assert found.seen
    assert bool(found.why and found.advice) is (found.status is not Status.OK)
    assert found.blocks_measurement is (check.blocks and found.status is not Status.UNKNOWN)
