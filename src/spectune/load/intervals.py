"""Intervals of means and ratios from few, correlated observations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, stdtrit

from spectune.domain.estimate import Estimate

Floats = NDArray[np.float64]

_ENOUGH_FOR_CORRELATION = 10


def mean(values: Sequence[float] | Floats, confidence: float = 0.95) -> Estimate | None:
    """The mean with a Student interval, widened for serial correlation; None without values."""
    x = np.asarray(values, dtype=float)
    if x.size == 0:
        return None
    centre = float(x.mean())
    return _interval(centre, x - centre, x.size, confidence)


def quantile(values: Sequence[float] | Floats, share: float, confidence: float = 0.95) -> Estimate | None:
    """The value that `share` of the observations do not exceed, with the order-statistics interval (Conover, Practical
    Nonparametric Statistics, 3rd ed., ch. 3.2); a bound beyond the observations is infinite. None without values."""
    x = np.sort(np.asarray(values, dtype=float))
    n = int(x.size)
    if n == 0:
        return None
    centre = float(np.quantile(x, share))
    tail = (1 - confidence) / 2
    # P(at most r of n below the quantile) is binomial; the ranks cut off a tail on each side.
    below = bdtr(np.arange(n), n, share)
    lower = int(np.searchsorted(below, tail, side="right"))
    upper = int(np.searchsorted(below, 1 - tail, side="left")) + 1
    low = float(x[lower - 1]) if lower >= 1 else -math.inf
    high = float(x[upper - 1]) if upper <= n else math.inf
    return Estimate(centre, min(low, centre), max(high, centre), n, confidence)


def ratio(
    numerators: Sequence[float] | Floats, denominators: Sequence[float] | Floats, confidence: float = 0.95
) -> Estimate | None:
    """sum(numerators) / sum(denominators) with the delta-method interval of a ratio estimator (Cochran, Sampling
    Techniques, 3rd ed., ch. 6), widened for serial correlation; None without a positive denominator."""
    n, t = np.asarray(numerators, dtype=float), np.asarray(denominators, dtype=float)
    if n.size == 0 or t.sum() <= 0:
        return None
    centre = float(n.sum() / t.sum())
    return _interval(centre, (n - centre * t) / t.mean(), n.size, confidence)


def _interval(centre: float, residuals: Floats, n: int, confidence: float) -> Estimate:
    if n < 2:
        return Estimate(centre, -math.inf, math.inf, n, confidence)
    variance = float(np.sum(residuals**2) / (n - 1) / n) * inflation(residuals)
    half = float(stdtrit(n - 1, (1 + confidence) / 2)) * math.sqrt(variance)
    return Estimate(centre, centre - half, centre + half, n, confidence)


def inflation(residuals: Floats) -> float:
    """How much larger the variance of the mean is than for independent values, from the first autocorrelation.

    For an AR(1) series the factor is (1 + r) / (1 - r). The sample autocorrelation is biased by about -(1 + 3r) / n
    (Kendall 1954), which is put back; with few values it says nothing and the factor is 1. Never below 1: negative
    correlation is not trusted to make an interval narrower.
    """
    n = residuals.size
    total = float(np.sum(residuals**2))
    if n < _ENOUGH_FOR_CORRELATION or total == 0:
        return 1.0
    r = float(np.sum(residuals[1:] * residuals[:-1])) / total
    r = min(0.9, r + (1 + 3 * max(r, 0.0)) / n)
    return max(1.0, (1 + r) / (1 - r))
