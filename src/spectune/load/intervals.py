"""Intervals of means and ratios from few, correlated observations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, stdtrit

from spectune.domain.estimate import Estimate

Floats = NDArray[np.float64]

_FEWEST_BATCHES = 10
_MOST_CORRELATION = 0.98


def mean(values: Sequence[float] | Floats, confidence: float = 0.95) -> Estimate | None:
    """The mean with a Student interval, widened for serial correlation; None without values."""
    x = np.asarray(values, dtype=float)
    if x.size == 0:
        return None
    centre = float(x.mean())
    return _interval(centre, x - centre, confidence)


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
    found = ratio_residuals(numerators, denominators)
    return None if found is None else _interval(*found, confidence)


def ratio_residuals(
    numerators: Sequence[float] | Floats, denominators: Sequence[float] | Floats
) -> tuple[float, Floats] | None:
    """The ratio of the sums, and of every observation how far it pulls from it; None without a positive denominator."""
    n, t = np.asarray(numerators, dtype=float), np.asarray(denominators, dtype=float)
    if n.size == 0 or t.sum() <= 0:
        return None
    centre = float(n.sum() / t.sum())
    return centre, (n - centre * t) / t.mean()


def _interval(centre: float, residuals: Floats, confidence: float) -> Estimate:
    spread = Spread.of(residuals)
    half = spread.half_width(confidence)
    return Estimate(centre, centre - half, centre + half, residuals.size, confidence)


@dataclass(frozen=True, slots=True)
class Spread:
    """How uncertain a mean of correlated values is, from batch means.

    The values are put together into batches, twice as long as long as ten remain, and the means of the batches are
    taken for an AR(1) series: what is correlated over less than a batch is in their scatter, and the rest in their
    correlation. (Batch means: Law, Simulation Modeling and Analysis, 5th ed., ch. 9.5. Corrected by their own first
    autocorrelation: Tafazzoli et al., Skart, 2011.) `bench/loadgen/coverage.py` shows how often the interval is right.

    Attributes:
        variance: of the mean, were the batches independent.
        batches: how many.
        correlation: of a batch with the next, freed of its bias; 0 where there are too few to tell.
    """

    variance: float
    batches: int
    correlation: float

    @classmethod
    def of(cls, residuals: Floats) -> Spread:
        """Takes values less their mean."""
        means = residuals
        while means.size >= 2 * _FEWEST_BATCHES:
            odd = means.size % 2
            means = (means[odd::2] + means[odd + 1 :: 2]) / 2  # the oldest is left out: warm-up ends there
        means = means - means.mean()
        n, total = means.size, float(np.sum(means**2))
        if n < 2:
            return cls(math.inf, n, 0.0)
        return cls(total / (n - 1) / n, n, correlation(means))

    @property
    def inflation(self) -> float:
        """How much larger the variance of the mean is than for independent batches: (1 + r) / (1 - r) for AR(1).

        Never below 1: negative correlation is not trusted to make an interval narrower.
        """
        return max(1.0, (1 + self.correlation) / (1 - self.correlation))

    def half_width(self, confidence: float = 0.95) -> float:
        """Of the interval of the mean, by Student's t with as many degrees of freedom as independent batches would
        have that know the mean as well."""
        if self.batches < 2:
            return math.inf
        freedom = max(min(2, self.batches - 1), self.batches / self.inflation - 1)
        return student(freedom, confidence) * math.sqrt(self.variance * self.inflation)


def student(freedom: float, confidence: float = 0.95) -> float:
    """Half the width of Student's interval, in standard errors."""
    return float(stdtrit(freedom, (1 + confidence) / 2))


def correlation(values: Floats) -> float:
    """First autocorrelation of values around 0, freed of its bias of about -(1 + 3r) / n (Kendall 1954); 0 where there
    are too few to tell."""
    n, total = values.size, float(np.sum(values**2))
    if n < _FEWEST_BATCHES or total == 0:
        return 0.0
    r = float(np.sum(values[1:] * values[:-1])) / total
    return min(_MOST_CORRELATION, r + (1 + 3 * max(r, 0.0)) / n)
