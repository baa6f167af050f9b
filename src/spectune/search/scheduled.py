"""From the best depth of each load level to one candidate that changes its depth with the load.

Engines can draft deeper while few requests run and less, or not at all, when many do (SGLang's adaptive speculation,
vLLM's depths per batch size). Such a schedule is a candidate like any other: it is deployed, verified, measured at the
levels, and wins only if it does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from spectune.domain.candidate import Candidate, Method
from spectune.domain.history import History
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Proposal
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Purpose, Trial
from spectune.domain.workload import LevelKind

CHAINS = frozenset({Method.MTP, Method.EAGLE, Method.EAGLE3, Method.DRAFT})
"""Methods whose depth engines can change from step to step."""

WORTH = 1.02
"""A level changes its depth only for so much over the depth of the quieter level: noise must not make a schedule."""


def scheduled(spec: CampaignSpec, history: History) -> Proposal | None:
    """A schedule of a family of candidates whose levels want different depths, if it was not tried; None where the
    campaign wants none.

    A family is what differs in depth alone; running without speculation belongs to each.
    """
    if not spec.search.schedules:
        return None
    tried = {trial.candidate.id for trial in history.finished}
    for family in _families(history):
        rows = _rows(spec, family)
        depths = [depth for _, depth in rows]
        if len(set(depths)) < 2 or not any(depths):
            continue
        deepest = max((trial.candidate for trial in family), key=lambda candidate: candidate.speculation.depth)
        candidate = replace(deepest, speculation=replace(deepest.speculation, depth=max(depths), schedule=rows))
        if candidate.id not in tried:
            words = ", ".join(f"k={depth} from {requests}" for requests, depth in rows)
            return Proposal(candidate, Purpose.EXPLORE, f"the best depth of each level in one schedule: {words}")
    return None


def _families(history: History) -> list[list[Trial]]:
    """The last comparable trial of each candidate of a family that drafts, and of the one without speculation."""
    last = {trial.candidate.id: trial for trial in history.finished if trial.valid and trial.cells}
    families: dict[str, list[Trial]] = {}
    for trial in last.values():
        spec = trial.candidate.speculation
        if spec.method in CHAINS and spec.topk == 1 and not spec.schedule:
            families.setdefault(_family(trial.candidate), []).append(trial)
    for family in families.values():
        knobs = family[0].candidate.knobs
        family += [
            trial
            for trial in last.values()
            if trial.candidate.speculation.method is Method.NONE and trial.candidate.knobs == knobs
        ]
    return [family for family in families.values() if len(family) > 1]


def _family(candidate: Candidate) -> str:
    return replace(candidate, speculation=replace(candidate.speculation, depth=1)).id


def _rows(spec: CampaignSpec, family: Iterable[Trial]) -> tuple[tuple[int, int], ...]:
    """(users, depth) of every closed-loop level, neighbours with the same depth joined."""
    users = sorted({cell.level.users for cell in spec.cells if cell.level.kind is LevelKind.CONCURRENCY})
    rows: list[tuple[int, int]] = []
    for level in users:
        speeds = {t.candidate.speculation.depth: speed for t in family if (speed := _speed(t, level))}
        if not speeds:
            continue
        best = max(speeds, key=lambda depth: speeds[depth])
        before = rows[-1][1] if rows else None
        if before is not None and speeds.get(before, 0.0) * WORTH >= speeds[best]:
            best = before
        if before != best:
            rows.append((level, best))
    return tuple(rows)


def _speed(trial: Trial, users: int) -> float | None:
    """Geometric mean of per-user speeds over the temperatures of a level; None where one is missing."""
    logs = []
    for cell in trial.cells.values():
        level = cell.measurement.cell.level
        if level.kind is LevelKind.CONCURRENCY and level.users == users:
            estimate = cell.measurement.metrics.get(MetricName.PER_USER_SPEED)
            if estimate is None or estimate.value <= 0:
                return None
            logs.append(math.log(estimate.value))
    return math.exp(math.fsum(logs) / len(logs)) if logs else None
