"""What the trials measured, as one table: a row a trial, a column a prompt of a cell, the log of the speed inside."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from spectune.domain.estimate import Estimate
from spectune.domain.measurement import Measurement, Outcome, Phase
from spectune.domain.metrics import MetricName
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import MeasuredCell, Trial

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


class Column(NamedTuple):
    """One prompt in one cell; the unit in which trials are paired. Domain and prompt are "" for aggregate speed."""

    cell: str
    domain: str
    prompt: str


@dataclass(frozen=True)
class Table:
    """Attributes:
    trials: one a row, in the order of their numbers.
    times: middle of each trial's measuring, seconds since the epoch.
    columns: sorted, so that the order of records does not matter.
    logs: natural log of the speed; NaN where a trial has no usable value.
    variances: variance of a value where the measurement itself tells it (aggregate speed); 0 elsewhere.
    weights: cell key -> weight under the objective, for every cell that the campaign asks for.
    per_prompt: whether columns are prompts, whose scatter tells the uncertainty.
    """

    trials: tuple[Trial, ...]
    times: Floats
    columns: tuple[Column, ...]
    logs: Floats
    variances: Floats
    weights: Mapping[str, float]
    per_prompt: bool

    @classmethod
    def of(cls, spec: CampaignSpec, trials: Iterable[Trial]) -> Table:
        """The usable values of comparable trials; trials without any are left out.

        Per-user speed: records with outcome OK, phase STEADY and a speed; several records of a prompt are averaged.
        Aggregate speed: the measurement's own metric. Measurements with a fatal doubt are not used.
        """
        aggregate = spec.objective.maximise is MetricName.AGGREGATE_SPEED
        values = _aggregate_values if aggregate else _prompt_values
        rows = [
            (trial, found)
            for trial in sorted(trials, key=lambda trial: trial.number)
            if trial.valid and (found := {key: value for cell in _usable(trial) for key, value in values(cell)})
        ]
        columns = tuple(sorted({column for _, found in rows for column in found}))
        place = {column: index for index, column in enumerate(columns)}
        logs = np.full((len(rows), len(columns)), np.nan)
        variances = np.zeros_like(logs)
        for row, (_, found) in enumerate(rows):
            for column, (log, variance) in found.items():
                logs[row, place[column]] = log
                variances[row, place[column]] = variance
        return cls(
            tuple(trial for trial, _ in rows),
            np.array([measured_at(trial) for trial, _ in rows], dtype=np.float64),
            columns,
            logs,
            variances,
            {cell.key: spec.weight(cell) for cell in spec.cells},
            not aggregate,
        )

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Candidate of each row."""
        return tuple(trial.candidate.id for trial in self.trials)

    @cached_property
    def cell_of(self) -> Ints:
        """Column -> index into `cells`."""
        place = {cell: index for index, cell in enumerate(self.cells)}
        return np.array([place[column.cell] for column in self.columns], dtype=np.intp)

    @cached_property
    def domain_of(self) -> Ints:
        """Column -> index into `domains`."""
        place = {domain: index for index, domain in enumerate(self.domains)}
        return np.array([place[column.domain] for column in self.columns], dtype=np.intp)

    @cached_property
    def lags(self) -> Floats:
        """Seconds between each two trials."""
        between: Floats = np.abs(self.times[:, None] - self.times[None, :])
        return between

    @cached_property
    def cells(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column.cell for column in self.columns))

    @cached_property
    def domains(self) -> tuple[str, ...]:
        return tuple(sorted({column.domain for column in self.columns}))


def measured_at(trial: Trial) -> float:
    """Middle of a trial's measuring, seconds since the epoch; its start where nothing was measured."""
    middles = [cell.measurement.started_unix + cell.measurement.window_s / 2 for cell in trial.cells.values()]
    return sum(middles) / len(middles) if middles else trial.started_at


def fatal_doubts(measurement: Measurement) -> tuple[str, ...]:
    """Messages of the doubts that forbid using a measurement."""
    return tuple(doubt.message for doubt in measurement.doubts if doubt.fatal)


def _usable(trial: Trial) -> Iterator[MeasuredCell]:
    return (cell for cell in trial.cells.values() if not fatal_doubts(cell.measurement))


def _prompt_values(cell: MeasuredCell) -> Iterator[tuple[Column, tuple[float, float]]]:
    seen: dict[Column, list[float]] = {}
    key = cell.measurement.cell.key
    for record in cell.records:
        if record.outcome is not Outcome.OK or record.phase is not Phase.STEADY:
            continue
        speed = record.speed_tok_s
        if speed is not None and 0 < speed < math.inf:
            seen.setdefault(Column(key, record.domain, record.prompt_id), []).append(math.log(speed))
    for column, logs in seen.items():
        yield column, (math.fsum(logs) / len(logs), 0.0)


def _aggregate_values(cell: MeasuredCell) -> Iterator[tuple[Column, tuple[float, float]]]:
    estimate = cell.measurement.metrics.get(MetricName.AGGREGATE_SPEED)
    if estimate is not None and 0 < estimate.value < math.inf:
        yield Column(cell.measurement.cell.key, "", ""), (math.log(estimate.value), _log_variance(estimate))


def _log_variance(estimate: Estimate) -> float:
    """Variance of the log from the interval's width; 0 where the interval is unknown, since the scatter of repeated
    deployments, which is estimated anyway, contains the scatter within a window."""
    if not (0 < estimate.low <= estimate.high < math.inf):
        return 0.0
    z = float(ndtri((1 + estimate.confidence) / 2))
    return (math.log(estimate.high / estimate.low) / 2 / z) ** 2
