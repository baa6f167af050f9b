"""Where the candidate of the answer is slower than what you have, however much it gains elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spectune.domain.metrics import METRICS, MetricName
from spectune.report import words
from spectune.report.model import CandidateCell, CandidateData, CellInfo, Cost, Interval

LEAST = 0.01
"""A smaller loss is not told: it decides nothing, and intervals of a quiet machine are narrower than that."""


def losses(candidates: Sequence[CandidateData], cells: Sequence[CellInfo]) -> tuple[Cost, ...]:
    """Speeds of each user, and of all together, whose intervals lie below the baseline's, the largest loss first."""
    before = next((c for c in candidates if c.is_baseline), None)
    after = next((c for c in candidates if c.is_answer), None)
    if before is None or after is None or after.is_baseline:
        return ()
    found = [
        (new.value / old.value, Cost(f"{METRICS[name].title}, {cell.label}", _speed(old), _lower(old, new)))
        for cell, had, has in zip(cells, before.cells, after.cells, strict=True)
        for name, old, new in _pairs(had, has)
        if _is_lower(old, new)
    ]
    return tuple(cost for _, cost in sorted(found, key=lambda row: row[0]))


def _pairs(had: CandidateCell, has: CandidateCell) -> Iterator[tuple[MetricName, Interval, Interval]]:
    if had.per_user and has.per_user:
        yield MetricName.PER_USER_SPEED, had.per_user, has.per_user
    if had.aggregate and has.aggregate:
        yield MetricName.AGGREGATE_SPEED, had.aggregate, has.aggregate


def _is_lower(old: Interval, new: Interval) -> bool:
    if old.low is None or new.high is None or new.value > (1 - LEAST) * old.value:
        return False
    return new.high < old.low


def _speed(found: Interval) -> str:
    return f"{words.number(found.value)}\u00a0tok/s"


def _lower(old: Interval, new: Interval) -> str:
    return f"{_speed(new)} ({words.percent(new.value / old.value)})"
