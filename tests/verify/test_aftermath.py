"""What a stopped server leaves behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.finding import Status
from spectune.verify.aftermath import SLACK_BYTES, memory_back
from spectune.verify.gate import Gate
from spectune.verify.observed import Left
from tests.verify.builders import asked, seen

OK, VIOLATED, UNKNOWN = Status.OK, Status.VIOLATED, Status.UNKNOWN
GIB = 2**30


@pytest.mark.parametrize(
    ("left", "status"),
    [
        (Left(GIB, GIB), OK),
        (Left(GIB, GIB + SLACK_BYTES), OK),
        (Left(GIB, 0), OK),
        (Left(GIB, 3 * GIB), VIOLATED),
        (Left(None, 3 * GIB), UNKNOWN),
        (Left(GIB, None), UNKNOWN),
        (None, UNKNOWN),
    ],
)
def test_memory(left: Left | None, status: Status) -> None:
    found = memory_back(asked(), replace(seen(), left=left))
    assert found.status is status
    assert status is not VIOLATED or found.seen.startswith("2.0 GiB more")


def test_leftovers_are_shown_and_forbid_no_measuring() -> None:
    found = Gate().stopped(asked(), 0, GIB)
    assert {finding.status for finding in found.findings} == {VIOLATED}
    assert found.invalid_because is None
