"""Which trials of a confirmation make a pair."""

from __future__ import annotations

import pytest

from spectune.domain.trial import Purpose, Trial, partners
from tests.judge.lab import BASELINE


def trials(*confirming: int | None) -> list[Trial]:
    """An exploration, and confirming trials from number 2 on, each with the one beside it."""
    explored = Trial(1, 1, BASELINE, Purpose.EXPLORE, "", 0.0)
    return [explored, *(Trial(n, 1, BASELINE, Purpose.CONFIRM, "", 0.0, beside=b) for n, b in enumerate(confirming, 2))]


@pytest.mark.parametrize(
    ("confirming", "found"),
    [
        ((), {}),
        ((None,), {}),
        ((None, None, None), {2: 3, 3: 2}),
        ((None, None, None, None), {2: 3, 3: 2, 4: 5, 5: 4}),
        ((3, 2, 5, 4), {2: 3, 3: 2, 4: 5, 5: 4}),
        ((3, 2, None, None), {2: 3, 3: 2, 4: 5, 5: 4}),
    ],
)
def test_partners(confirming: tuple[int | None, ...], found: dict[int, int]) -> None:
    assert partners(trials(*confirming)) == found
