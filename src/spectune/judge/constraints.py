"""Constraints: what a candidate must not break, whatever it gains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spectune.domain.deployment import Capacity
from spectune.domain.finding import Status
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Trial
from spectune.judge.comparison import Comparison


@dataclass(frozen=True, slots=True)
class Breach:
    """A constraint that does not hold, or can't be told (UNKNOWN); `words` for people."""

    status: Status
    words: str


def capacity_breaches(spec: CampaignSpec, trial: Trial) -> Iterator[Breach]:
    """Room that is too small, or not told by the engine."""
    capacity = trial.deployment.seen.capacity if trial.deployment is not None else Capacity()
    floors = (
        (spec.constraints.min_kv_tokens, capacity.kv_tokens, "tokens of KV room"),
        (spec.constraints.min_running_requests, capacity.max_running, "running requests"),
    )
    for floor, seen, what in floors:
        if floor is None:
            continue
        if seen is None:
            yield Breach(Status.UNKNOWN, f"whether there are at least {floor} {what} is not told by the engine")
        elif seen < floor:
            yield Breach(Status.VIOLATED, f"only {seen} {what}, at least {floor} are demanded")


def slowdown_breaches(spec: CampaignSpec, against_baseline: Comparison) -> Iterator[Breach]:
    """Levels that provably lose more than is allowed against the baseline."""
    most = spec.constraints.max_slowdown
    if most is None:
        return
    for level in dict.fromkeys(cell.level for cell in spec.cells):
        cells = [cell.key for cell in spec.cells if cell.level == level]
        ratio = against_baseline.ratio_over(cells, spec.objective.confidence)
        if ratio is not None and ratio.high < 1 - most:
            words = f"{level.label} lose {ratio.percent}, more than the {100 * most:g} % allowed"
            yield Breach(Status.VIOLATED, words)
