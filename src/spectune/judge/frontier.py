"""The frontier: per-user speed against aggregate speed against KV room, over all valid trials."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from spectune.domain.candidate import Candidate
from spectune.domain.measurement import Measurement
from spectune.domain.metrics import MetricName
from spectune.domain.trial import Trial
from spectune.domain.workload import Level


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """A candidate at a level, averaged over its trials and the temperatures of the level.

    Attributes:
        per_user_tok_s, aggregate_tok_s: speeds, geometric means.
        kv_tokens: smallest KV room seen; None where the engine does not tell.
        trials: numbers of the trials behind it.
        dominated: whether another candidate at the same level is at least as good in all three and better in one.
            Point estimates only: whether a difference is real is the verdict's business. A KV room that is not
            known neither dominates nor protects.
    """

    candidate: Candidate
    level: Level
    per_user_tok_s: float
    aggregate_tok_s: float
    kv_tokens: int | None
    trials: tuple[int, ...]
    dominated: bool = False


def frontier(trials: Iterable[Trial]) -> tuple[FrontierPoint, ...]:
    """All points, by level, fastest per user first. Cells with a fatal doubt or without speeds are left out."""
    seen: dict[tuple[Level, str], list[tuple[Trial, float, float]]] = {}
    for trial in trials:
        if not trial.valid:
            continue
        for cell in trial.cells.values():
            measurement = cell.measurement
            per_user = _value(measurement, MetricName.PER_USER_SPEED)
            aggregate = _value(measurement, MetricName.AGGREGATE_SPEED)
            if per_user is None or aggregate is None or any(doubt.fatal for doubt in measurement.doubts):
                continue
            seen.setdefault((measurement.cell.level, trial.candidate.id), []).append((trial, per_user, aggregate))
    points = [_point(level, rows) for (level, _), rows in seen.items()]
    marked = [replace(p, dominated=any(_dominates(q, p) for q in points if q.level == p.level)) for p in points]
    return tuple(sorted(marked, key=lambda p: (p.level.kind.value, p.level.value, -p.per_user_tok_s, p.candidate.id)))


def _value(measurement: Measurement, name: MetricName) -> float | None:
    estimate = measurement.metrics.get(name)
    return estimate.value if estimate is not None and 0 < estimate.value < math.inf else None


def _point(level: Level, rows: Sequence[tuple[Trial, float, float]]) -> FrontierPoint:
    rooms = [trial.deployment.seen.capacity.kv_tokens for trial, _, _ in rows if trial.deployment is not None]
    known = [room for room in rooms if room is not None]
    return FrontierPoint(
        rows[0][0].candidate,
        level,
        statistics.geometric_mean(per_user for _, per_user, _ in rows),
        statistics.geometric_mean(aggregate for _, _, aggregate in rows),
        min(known) if known else None,
        tuple(sorted({trial.number for trial, _, _ in rows})),
    )


def _dominates(one: FrontierPoint, other: FrontierPoint) -> bool:
    mine = [one.per_user_tok_s, one.aggregate_tok_s]
    theirs = [other.per_user_tok_s, other.aggregate_tok_s]
    if one.kv_tokens is not None and other.kv_tokens is not None:
        mine.append(float(one.kv_tokens))
        theirs.append(float(other.kv_tokens))
    return all(a >= b for a, b in zip(mine, theirs, strict=True)) and mine != theirs
