"""The stop rule: when a speed is known as well as was asked.

An interval that is looked at again and again is narrow by luck some time. So it is looked at rarely, must be narrow
enough at two looks in a row, and only counts once what requests have in common (a machine that is slow for a while)
can be told from chance: from so many requests on, or where even requests that resemble each other very much would
make it no wider than asked.
"""

from __future__ import annotations

import math

import numpy as np

from spectune.load import intervals
from spectune.load.intervals import Floats

_GROWTH = 1.5
_LOOKS = 2
_ENOUGH_TO_TELL = 100
_AT_WORST = 20.0
"""Inflation of the variance taken for granted before that: of an AR(1) series with a correlation of 0.9."""
_SETTLED = 0.3
"""Correlation of batches above which they are too short, and their interval not to be trusted yet."""


class Enough:
    """Looks at a growing series of observations, each a numerator and a denominator."""

    def __init__(self, precision: float, fewest: int) -> None:
        """Takes the relative half-width that is asked for, and how many observations there must be at least."""
        self._precision = precision
        self._next = fewest
        self._in_a_row = 0

    def is_due(self, observations: int) -> bool:
        """Whether to look again, with so many."""
        return observations >= self._next

    def look(self, numerators: Floats, denominators: Floats) -> bool:
        """Looks, and says whether the ratio of the sums is known well enough."""
        self._next = math.ceil(max(self._next, len(numerators), 1) * _GROWTH)
        self._in_a_row = self._in_a_row + 1 if self._is_narrow(numerators, denominators) else 0
        return self._in_a_row >= _LOOKS

    def _is_narrow(self, numerators: Floats, denominators: Floats) -> bool:
        found = intervals.ratio_residuals(numerators, denominators)
        if found is None or len(numerators) < 2:
            return False
        centre, residuals = found
        asked = self._precision * abs(centre)
        if residuals.size < _ENOUGH_TO_TELL:
            variance = float(np.sum(residuals**2)) / (residuals.size - 1) / residuals.size
            return intervals.student(residuals.size - 1) * math.sqrt(_AT_WORST * variance) <= asked
        spread = intervals.Spread.of(residuals)
        return spread.correlation < _SETTLED and spread.half_width() <= asked
