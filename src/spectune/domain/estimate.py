"""Numbers with their uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with an interval. The unit is the metric's.

    Attributes:
        value: the point estimate.
        low, high: interval bounds; equal to -inf/inf where nothing is known about the spread.
        n: independent observations behind it (requests, blocks or pairs; the maker says which).
        confidence: the interval's nominal coverage.
    """

    value: float
    low: float
    high: float
    n: int
    confidence: float = 0.95

    @property
    def half_width(self) -> float:
        """Half the interval's width relative to the value; inf where the value is 0."""
        return (self.high - self.low) / 2 / abs(self.value) if self.value else float("inf")


@dataclass(frozen=True, slots=True)
class Ratio:
    """A speed ratio candidate / reference with its interval; 1.0 is no difference."""

    value: float
    low: float
    high: float
    pairs: int
    confidence: float = 0.95

    @property
    def percent(self) -> str:
        """For people: "+12.3 % (+8.0 to +16.9)", or "+12.3 % (spread unknown)"."""
        gain, low, high = (100 * (x - 1) for x in (self.value, self.low, self.high))
        if self.low <= 0 or not math.isfinite(high):
            return f"{gain:+.1f} % (spread unknown)"
        return f"{gain:+.1f} % ({low:+.1f} to {high:+.1f})"
