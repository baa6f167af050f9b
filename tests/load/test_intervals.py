from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.estimate import Estimate
from spectune.load import intervals

FINITE = st.floats(0.1, 1e6)


def test_nothing_gives_nothing() -> None:
    assert intervals.mean([]) is None
    assert intervals.ratio([], []) is None
    assert intervals.ratio([1.0], [0.0]) is None


def test_one_value_has_no_known_spread() -> None:
    assert intervals.mean([3.0]) == Estimate(3.0, -math.inf, math.inf, 1)


def test_the_textbook_interval_of_a_mean() -> None:
    # n = 4, mean 5, s = 1.825742, t(0.975, 3) = 3.182446: half width 2.905
    estimate = intervals.mean([3.0, 4.0, 6.0, 7.0])
    assert estimate is not None
    assert estimate.value == 5.0
    assert estimate.high - 5.0 == pytest.approx(2.9052, abs=1e-4)
    assert 5.0 - estimate.low == pytest.approx(2.9052, abs=1e-4)


def test_a_ratio_weighs_by_the_denominator() -> None:
    # One long slow request and one short fast one: tokens of both over seconds of both, not the mean of two speeds.
    estimate = intervals.ratio([100.0, 100.0], [10.0, 1.0])
    assert estimate is not None
    assert estimate.value == pytest.approx(200 / 11)


def test_a_constant_ratio_has_no_width() -> None:
    estimate = intervals.ratio([10.0, 20.0, 40.0], [1.0, 2.0, 4.0])
    assert estimate is not None
    assert estimate.half_width == pytest.approx(0, abs=1e-9)


@given(st.lists(st.tuples(FINITE, FINITE), min_size=2, max_size=40), st.floats(0.01, 100))
def test_the_unit_does_not_matter(pairs: list[tuple[float, float]], scale: float) -> None:
    tokens, seconds = zip(*pairs, strict=True)
    one, other = intervals.ratio(tokens, seconds), intervals.ratio([scale * t for t in tokens], seconds)
    assert one is not None
    assert other is not None
    assert other.value == pytest.approx(scale * one.value)
    assert other.half_width == pytest.approx(one.half_width, rel=1e-6, abs=1e-9)
    assert one.low <= one.value <= one.high


def test_the_median_has_the_textbook_ranks() -> None:
    # n = 20: the 6th and the 15th value enclose the median with 95.9 %.
    estimate = intervals.quantile([float(v) for v in range(1, 21)], 0.5)
    assert estimate is not None
    assert (estimate.low, estimate.value, estimate.high) == (6.0, 10.5, 15.0)


def test_a_p99_of_few_values_has_no_upper_bound() -> None:
    estimate = intervals.quantile([1.0, 2.0, 3.0], 0.99)
    assert estimate is not None
    assert estimate.high == math.inf
    assert intervals.quantile([], 0.5) is None


@given(st.lists(FINITE, min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_a_quantile_lies_in_its_interval_and_among_the_values(values: list[float], share: float) -> None:
    estimate = intervals.quantile(values, share)
    assert estimate is not None
    assert estimate.low <= estimate.value <= estimate.high
    assert min(values) <= estimate.value <= max(values)


def test_quantile_intervals_contain_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    hits = 0
    for row in rng.exponential(size=(2000, 40)):
        estimate = intervals.quantile(row, 0.5)
        assert estimate is not None
        hits += estimate.low <= math.log(2) <= estimate.high
    assert 0.94 <= hits / 2000 <= 0.98


def coverage(n: int, correlation: float, tries: int = 2000) -> float:
    """Share of 95 % intervals of the mean of an AR(1) series that contain the true mean."""
    rng = np.random.default_rng(7)
    noise = rng.standard_normal((tries, n + 50))
    series = np.empty_like(noise)
    series[:, 0] = noise[:, 0]
    for step in range(1, n + 50):
        series[:, step] = correlation * series[:, step - 1] + noise[:, step]
    hits = 0
    for row in series[:, 50:]:
        estimate = intervals.mean(row)
        assert estimate is not None
        hits += estimate.low <= 0 <= estimate.high
    return hits / tries


@pytest.mark.parametrize(("n", "correlation"), [(5, 0.0), (12, 0.0), (30, 0.0), (30, 0.3), (60, 0.5), (200, 0.6)])
def test_intervals_contain_the_truth_as_often_as_they_say(n: int, correlation: float) -> None:
    assert 0.92 <= coverage(n, correlation) <= 0.98


def test_negative_correlation_is_not_trusted() -> None:
    assert intervals.Spread.of(np.array([1.0, -1.0] * 9)).inflation == 1.0


def test_a_trend_widens_the_interval() -> None:
    assert intervals.Spread.of(np.linspace(-1, 1, 40)).inflation > 4
