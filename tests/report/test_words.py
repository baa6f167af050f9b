from __future__ import annotations

import pytest

from spectune.report import words
from spectune.report.model import Interval


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (float("inf"), "–"),
        (0, "0"),
        (76.34, "76.3"),
        (103.4, "103"),
        (12345.0, "12\u202f345"),
        (0.05234, "0.0523"),
        (-3.2, "−3.20"),
    ],
)
def test_number(value: float | None, shown: str) -> None:
    assert words.number(value) == shown


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        ((1.551, 1.48, 1.623), "+55\u00a0% (+48 to +62\u00a0%)"),
        ((0.98, 0.95, 1.01), "−2\u00a0% (−5 to +1\u00a0%)"),
        ((1.004, 0.999, 1.009), "+0.4\u00a0% (−0.1 to +0.9\u00a0%)"),
        ((0.999, 0.97, 1.03), "0\u00a0% (−3 to +3\u00a0%)"),
        ((1.2, None, None), "+20\u00a0% (spread unknown)"),
    ],
)
def test_gain(ratio: tuple[float, float | None, float | None], shown: str) -> None:
    assert words.gain_spread(Interval(*ratio, 4, 0.95)) == shown


@pytest.mark.parametrize(
    ("interval", "shown"),
    [
        (Interval(76.3, 74.1, 78.5, 5, 0.95), "76.3 ±2.2"),
        (Interval(103.4, 98, 108, 5, 0.95), "103 ±5"),
        (Interval(76.3, None, None, 5, 0.95), "76.3 ±?"),
        (None, "–"),
    ],
)
def test_plus_minus(interval: Interval | None, shown: str) -> None:
    assert words.plus_minus(interval) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "–"), (0.5, "30\u00a0s"), (2.14, "2.1\u00a0min"), (185.0, "3\u00a0h 05\u00a0min")]
)
def test_minutes(value: float | None, shown: str) -> None:
    assert words.minutes(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(None, "–"), (512, "512\u00a0B"), (184_549_376, "176\u00a0MiB")])
def test_size(value: int | None, shown: str) -> None:
    assert words.size(value) == shown
