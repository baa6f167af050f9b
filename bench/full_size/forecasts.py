"""What spectune would have forecast after its first two settings, beside what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from bench.full_size.evidence import log_sd, plain, series
from bench.search.forecasts import CONFIDENCE, Miss
from spectune.domain.history import History
from spectune.domain.metrics import MetricName
from spectune.domain.trial import Trial, TrialState
from spectune.predict.speed import SpeedForecaster


def misses(history: History, share: float, known: int) -> Iterator[tuple[int, Miss]]:
    """How forecasts turned out, with their depths: of all others, from the baselines and the trials of one depth, under
    one acceptance."""
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
            sd = log_sd(expected)
            for trial in others[depth]:
                if key not in trial.cells:
                    continue
                seen = trial.cells[key].measurement.metrics[MetricName.PER_USER_SPEED]
                yield depth, Miss(math.log(expected.value / seen.value), sd, log_sd(seen))


def usable(trial: Trial) -> Trial:
    """Random weights and forced acceptance spoil every trial's answers, which doubts of its cells say too; its speeds
    are real."""
    cells = {key: replace(cell, measurement=replace(cell.measurement, doubts=())) for key, cell in trial.cells.items()}
    return replace(trial, state=TrialState.VALID, candidate=plain(trial.candidate), cells=cells)
