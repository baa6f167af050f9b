"""What the trials measured, as one table: a row a trial, a column a prompt of a cell, the log of the speed inside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spectune.domain.measurement import Measurement
from spectune.domain.metrics import MetricName
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import MeasuredCell, Trial, partners
from spectune.judge.values import Column, reader

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


@dataclass(frozen=True)
class Table:
    """Attributes:
    trials: one a row, in the order of their numbers.
    times: middle of each trial's measuring, seconds since the epoch.
    columns: sorted, so that the order of records does not matter.
    logs: natural log of the metric; NaN where a trial has no usable value.
    variances: variance of a value where the measurement itself tells it (one value a cell); 0 elsewhere.
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
        Aggregate speed: the measurement's own metric. Goodput: from the records. What has a fatal doubt is not used.
        """
        values = reader(spec.objective)
        rows = [
            (trial, found)
            for trial in sorted(trials, key=lambda trial: trial.number)
            if trial.valid and (found := {key: value for cell in _usable(trial) for key, value in values(trial, cell)})
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
            spec.objective.maximise is MetricName.PER_USER_SPEED,
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
    def together(self) -> Floats:
        """1 for two trials measured side by side, 0 for others and on the diagonal.

        Where a cell has one value, also 1 for the two sides of a confirming pair that were measured one after the
        other: what the prompts of a pair do to that value, they do to both.
        """
        beside = {trial.number: trial.beside for trial in self.trials}
        other = beside if self.per_prompt else {**beside, **partners(self.trials)}
        found: Floats = np.array([[other[one] == two for two in other] for one in other], dtype=np.float64)
        return found.reshape(len(other), len(other))

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
