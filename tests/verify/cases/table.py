"""The cases of every check, and the ends that a check can't have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spectune.domain.finding import Status
from spectune.verify.check import Check
from tests.verify.cases import (
    aftermath,
    announced,
    answers,
    company,
    drafting,
    endurance,
    identity,
    parity,
    sampling,
    scores,
    settings,
    soundness,
)
from tests.verify.cases.case import Cases

ROOMS = (
    aftermath,
    announced,
    answers,
    company,
    drafting,
    endurance,
    identity,
    parity,
    sampling,
    scores,
    settings,
    soundness,
)
CASES: Cases = {name: cases for room in ROOMS for name, cases in room.CASES.items()}

NEVER: Mapping[tuple[str, Status], str] = {
    ("new-warnings", Status.VIOLATED): "a line in a log is a hint; whether it matters a person must read",
    ("drafts-not-suspicious", Status.VIOLATED): "easy text is accepted as well as text seen before, so it is no proof",
    ("measured-soundly", Status.VIOLATED): "a doubt says that a number may be wrong, not that the server is",
}
"""Check and end that it never has, and the reason."""


def uncovered(checks: Iterable[Check], cases: Cases, never: Iterable[tuple[str, Status]]) -> list[str]:
    """What is missing of cases for ok, violated and unknown of every check, and what is there in vain; for people."""
    checks, never = tuple(checks), set(never)
    ends = {check.name: {case.status for case in cases.get(check.name, ())} for check in checks}
    wrong = [f"{name}: cases of no check" for name in cases.keys() - ends.keys()]
    wrong += [f"{name}: an exception for no check" for name, _ in never if name not in ends]
    for name, found in ends.items():
        excused = {status for check, status in never if check == name}
        wrong += [f"{name}: no case for {status}" for status in Status if status not in found | excused]
        wrong += [f"{name}: a case for {status}, which it is said never to end in" for status in found & excused]
    return sorted(wrong)
