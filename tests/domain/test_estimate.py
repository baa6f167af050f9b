from __future__ import annotations

import math

import pytest

from spectune.domain.estimate import Ratio


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (1.08, 1.169, "+12.3 % (+8.0 to +16.9)"),
        (0.0, math.inf, "+12.3 % (spread unknown)"),
        (-math.inf, math.inf, "+12.3 % (spread unknown)"),
        (0.5, math.inf, "+12.3 % (spread unknown)"),
    ],
)
def test_a_spread_that_is_unknown_is_no_number(low: float, high: float, shown: str) -> None:
    assert Ratio(1.123, low, high, pairs=1).percent == shown
