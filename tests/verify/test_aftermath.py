"""What a stopped server leaves behind."""

from __future__ import annotations

from spectune.domain.finding import Status
from spectune.verify.gate import Gate
from tests.verify.builders import asked
from tests.verify.cases.aftermath import GIB


def test_leftovers_are_shown_and_forbid_no_measuring() -> None:
    found = Gate().stopped(asked(), 0, GIB)
    assert {finding.status for finding in found.findings} == {Status.VIOLATED}
    assert found.invalid_because is None
