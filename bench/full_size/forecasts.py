"""What spectune would have forecast after its first two settings, beside what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist

from bench.full_size.evidence import plain, series
from spectune.domain.history import History
from spectune.domain.metrics import MetricName
from spectune.domain.trial import Trial, TrialState
from spectune.predict.speed import SpeedForecaster

CONFIDENCE = 0.9


@dataclass(frozen=True, slots=True)
class Miss:
    """One forecast of per-user speed and what came. `measured_sd` is of the measurement's logarithm."""

    depth: int
    cell: str
    forecast: float
    low: float
    high: float
    measured: float
    measured_sd: float

    @property
    def off(self) -> float:
        return self.forecast / self.measured - 1

    @property
    def inside(self) -> bool:
        """Whether the measurement lies where one more measurement was to be expected."""
        reach = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
        sd = math.log(self.high / self.low) / 2 / reach
        return abs(math.log(self.forecast / self.measured)) <= reach * math.hypot(sd, self.measured_sd)


def misses(history: History, share: float, known: int) -> Iterator[Miss]:
    """Forecasts of all other depths from the baselines and the trials of one depth, under one acceptance."""
    found = series(history, share)
    few = [trial for depth in (0, known) for trial in found.get(depth, ())]
    spec = replace(history.opened.spec, objective=replace(history.opened.spec.objective, confidence=CONFIDENCE))
    told = replace(history, trials={trial.number: usable(trial) for trial in few})
    others = {depth: trials for depth, trials in found.items() if depth not in (0, known)}
    asked = {depth: plain(trials[0].candidate) for depth, trials in others.items()}
    made = SpeedForecaster().forecast(spec, told, asked.values())
    for depth, candidate in asked.items():
        if candidate.id not in made:
            continue
        for key, metrics in made[candidate.id].cells.items():
            expected = metrics[MetricName.PER_USER_SPEED]
            for trial in others[depth]:
                if key not in trial.cells:
                    continue
                seen = trial.cells[key].measurement.metrics[MetricName.PER_USER_SPEED]
                sd = math.log(seen.high / seen.low) / 2 / NormalDist().inv_cdf((1 + seen.confidence) / 2)
                yield Miss(depth, key, expected.value, expected.low, expected.high, seen.value, sd)


def usable(trial: Trial) -> Trial:
    """Random weights and forced acceptance spoil every trial's answers, which doubts of its cells say too; its speeds
    are real."""
    cells = {key: replace(cell, measurement=replace(cell.measurement, doubts=())) for key, cell in trial.cells.items()}
    return replace(trial, state=TrialState.VALID, candidate=plain(trial.candidate), cells=cells)
