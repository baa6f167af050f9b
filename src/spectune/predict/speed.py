"""Forecasts of speed for every depth and cell, from one to a few trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

import numpy as np

from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Capacity
from spectune.domain.estimate import Estimate, Ratio
from spectune.domain.forecast import Forecast
from spectune.domain.history import History
from spectune.domain.metrics import MetricName
from spectune.domain.spec import CampaignSpec
from spectune.domain.verdict import Decision
from spectune.domain.workload import Level
from spectune.predict.evidence import Body, earlier, model_of, own, scatter_among
from spectune.predict.fit import Floats, Prediction
from spectune.predict.points import Point, Speed, batch_in, family_of, group_of, stall_of
from spectune.predict.room import interpolated

Gains = Mapping[MetricName, Ratio]
"""Per-user and aggregate speed against the baseline's."""

Room = Callable[[CampaignSpec, History, Candidate], Capacity | None]
"""What a candidate's capacity will be; None where nothing can be said."""


class SpeedForecaster:
    """Forecasts per-user and aggregate speed; a `Forecaster`.

    Trials on two servers at a time are not used: they share the machine. Only candidates whose other knobs equal those
    of measured trials are forecast, and only methods with at least one valid trial; no speculation is forecast as soon
    as anything was measured. See `predict.model` for the model. Trials of earlier campaigns count as `predict.priors`
    says; nobody is compared with a candidate that only they have measured.
    """

    def __init__(self, room: Room = interpolated) -> None:
        self._room = room

    def forecast(self, spec: CampaignSpec, history: History, candidates: Iterable[Candidate]) -> Mapping[str, Forecast]:
        found: dict[str, Forecast] = {}
        asked = list(candidates)
        for outcome, alike in self._outcomes(spec, history, asked):
            found |= outcome.forecasts(alike)
        return {c.id: found[c.id] for c in asked if c.id in found}

    def by_level(
        self, spec: CampaignSpec, history: History, candidates: Iterable[Candidate]
    ) -> Mapping[str, Mapping[Level, Gains]]:
        """Candidate id -> level -> gains over the baseline, of every level that the workload names, measured or not.

        Sampling temperatures count alike; what can't be said is absent.
        """
        found: dict[str, dict[Level, Gains]] = {}
        for outcome, alike in self._outcomes(spec, history, list(candidates)):
            for name, levels in outcome.by_level(alike).items():
                found.setdefault(name, {}).update(levels)
        return found

    def _outcomes(
        self, spec: CampaignSpec, history: History, asked: Sequence[Candidate]
    ) -> Iterator[tuple[_Outcome, Sequence[Candidate]]]:
        """One for every set of other settings, with its candidates; none where nothing was measured."""
        for knobs in {tuple(sorted(c.knobs.items())): None for c in asked}:
            measured = own(history, knobs)
            bodies = [body for body in (measured, *earlier(spec, history, knobs, measured)) if body.speeds]
            if bodies:
                alike = [c for c in asked if tuple(sorted(c.knobs.items())) == knobs]
                yield _Outcome(spec, history, measured, bodies, self._room), alike


@dataclass(frozen=True, slots=True)
class _Target:
    """A candidate in a cell that can be forecast. `candidate` is its id."""

    candidate: str
    cell: str
    point: Point


class _Outcome:
    """The model of the trials of one set of knobs, and what follows from it."""

    def __init__(
        self, spec: CampaignSpec, history: History, measured: Body, bodies: Sequence[Body], room: Room
    ) -> None:
        self._spec, self._history, self._trials, self._room = spec, history, measured.trials, room
        self._earlier = [body for body in bodies if body.source]
        self._waits: dict[str, list[float]] = {}
        self._in_flight: dict[str, float] = {}
        self._prompts: dict[str, list[float]] = {}
        for body in bodies:  # this campaign's own first: what it tells of a cell holds
            self._waits = {**_by_cell(body, lambda speed: speed.wait_s), **self._waits}
            self._prompts = {**_by_cell(body, lambda speed: speed.prompt_s), **self._prompts}
            self._in_flight = {**_in_flight(body), **self._in_flight}
        self._model = model_of(spec, bodies, scatter_among(measured))

    def forecasts(self, candidates: Sequence[Candidate]) -> Mapping[str, Forecast]:
        measured = {trial.candidate.id: trial.candidate for trial in self._trials}
        known, rooms, targets = self._asked([*candidates, *measured.values()])
        if not targets:
            return {}
        prediction = self._model.predict([target.point for target in targets])
        wanted = {cell.key: self._spec.weight(cell) for cell in self._spec.cells}
        metric = self._metric(targets, prediction, self._spec.objective.maximise)
        scores = _Scores(self._spec.objective.confidence, wanted, targets, prediction, metric)
        leader = scores.best([name for name in measured if not _broke(self._history, name)])
        made = {}
        for name in dict.fromkeys(c.id for c in candidates):
            if name not in known:
                continue
            candidate = known[name]
            cells = self._cells(name, targets, prediction)
            if cells:
                gain = scores.ratio(name, self._history.baseline.id, self._count)
                lead = scores.ratio(name, leader, self._count) if leader else None
                basis, behind = self._basis(candidate), self._count - len(self._trials)
                made[name] = Forecast(candidate, cells, rooms[name], basis, gain, lead, leader if lead else "", behind)
        return made

    def by_level(self, candidates: Sequence[Candidate]) -> Mapping[str, Mapping[Level, Gains]]:
        baseline = self._history.baseline
        known, _, targets = self._asked([*candidates, baseline])
        if not targets:
            return {}
        prediction = self._model.predict([target.point for target in targets])
        found: dict[str, dict[Level, Gains]] = {c.id: {} for c in candidates if c.id in known}
        for metric in (MetricName.PER_USER_SPEED, MetricName.AGGREGATE_SPEED):
            logs = self._metric(targets, prediction, metric)
            for level in dict.fromkeys(cell.level for cell in self._spec.cells):
                wanted = {cell.key: 1.0 for cell in self._spec.cells if cell.level == level}
                scores = _Scores(self._spec.objective.confidence, wanted, targets, prediction, logs)
                for name, levels in found.items():
                    if (gain := scores.ratio(name, baseline.id, self._count)) is not None:
                        levels[level] = {**levels.get(level, {}), metric: gain}
        return found

    def _asked(
        self, candidates: Sequence[Candidate]
    ) -> tuple[Mapping[str, Candidate], Mapping[str, Capacity | None], Sequence[_Target]]:
        """Those of whose method something is known, by id, their room, and where each is to be forecast."""
        known = {c.id: c for c in candidates if self._knows(c)}
        rooms = {name: self._room(self._spec, self._history, candidate) for name, candidate in known.items()}
        return known, rooms, [t for name, one in known.items() for t in self._targets(name, one, rooms[name])]

    @property
    def _count(self) -> int:
        return len(self._trials) + sum(len(body.trials) for body in self._earlier)

    def _knows(self, candidate: Candidate) -> bool:
        family = family_of(candidate)
        return family is None or family in self._model.families

    def _targets(self, name: str, candidate: Candidate, room: Capacity | None) -> Iterable[_Target]:
        for cell in self._spec.cells:
            batch = batch_in(cell, room.max_running if room else None, self._in_flight.get(cell.key))
            if batch is not None:
                stall_s = stall_of(median(self._prompts.get(cell.key, [0.0])), batch)
                depth = candidate.speculation.depth
                point = Point(family_of(candidate), depth, cell.key, group_of(cell), batch, stall_s)
                yield _Target(name, cell.key, point)

    def _metric(self, targets: Sequence[_Target], prediction: Prediction, metric: MetricName) -> tuple[Floats, Floats]:
        """Log of a metric for each target, and its slope in log per-user speed; nan where unknown."""
        logs, slope = prediction.mean.copy(), np.ones(len(targets))
        if metric is MetricName.AGGREGATE_SPEED:
            for i, target in enumerate(targets):
                logs[i], slope[i] = self._aggregate(target.point, prediction.mean[i]) or (math.nan, 0.0)
        return logs, slope

    def _aggregate(self, point: Point, log_speed: float) -> tuple[float, float] | None:
        """Log aggregate speed and its slope in log per-user speed: a sequence spends 1/speed on a token, and the wait
        of its cell on prefill and gaps, which drafting does not shorten."""
        waits = self._waits.get(point.cell)
        if not waits:
            return None
        decode = _exp(-log_speed)
        total = decode + median(waits)
        return math.log(point.batch / total), decode / total

    def _cells(
        self, name: str, targets: Sequence[_Target], prediction: Prediction
    ) -> Mapping[str, Mapping[MetricName, Estimate]]:
        found: dict[str, Mapping[MetricName, Estimate]] = {}
        n, confidence = self._count, self._spec.objective.confidence
        for i, target in enumerate(targets):
            if target.candidate != name:
                continue
            sd = math.sqrt(max(0.0, prediction.covariance[i, i]))
            metrics = {MetricName.PER_USER_SPEED: _estimate(prediction.mean[i], sd, n, confidence)}
            if (total := self._aggregate(target.point, prediction.mean[i])) is not None:
                metrics[MetricName.AGGREGATE_SPEED] = _estimate(total[0], sd * total[1], n, confidence)
            found[target.cell] = metrics
        return found

    def _basis(self, candidate: Candidate) -> str:
        family = family_of(candidate)
        same = sum(family_of(trial.candidate) == family for trial in self._trials)
        alike = f"{same} of {candidate.speculation.method.value}" if family else f"{same} without drafts"
        trials = "1 trial" if len(self._trials) == 1 else f"{len(self._trials)} trials"
        campaigns = ", ".join(f"{len(body.trials)} of campaign {body.source}" for body in self._earlier)
        return f"{trials}, {alike}" + (f"; earlier: {campaigns}" if campaigns else "")


class _Scores:
    """A weighted mean of log speeds over cells, for each candidate. `wanted` are the weights, by key of the cell."""

    def __init__(
        self,
        confidence: float,
        wanted: Mapping[str, float],
        targets: Sequence[_Target],
        prediction: Prediction,
        metric: tuple[Floats, Floats],
    ) -> None:
        self._confidence = confidence
        self._prediction, (self._logs, self._slopes) = prediction, metric
        wanted = {key: weight for key, weight in wanted.items() if weight > 0}
        total = sum(wanted.values())
        self._weights: dict[str, Floats] = {}
        for name in dict.fromkeys(target.candidate for target in targets):
            own = {t.cell: i for i, t in enumerate(targets) if t.candidate == name}
            if not wanted or any(key not in own or math.isnan(self._logs[own[key]]) for key in wanted):
                continue
            weights = np.zeros(len(targets))
            for key, weight in wanted.items():
                weights[own[key]] = weight / total
            self._weights[name] = weights

    def value(self, name: str) -> float:
        used = self._weights[name] > 0
        return float(self._weights[name][used] @ self._logs[used])

    def best(self, names: Iterable[str]) -> str:
        """Id of the best; "" where none has a score."""
        return max((name for name in names if name in self._weights), key=self.value, default="")

    def ratio(self, name: str, reference: str, trials: int) -> Ratio | None:
        if name not in self._weights or reference not in self._weights:
            return None
        log = self.value(name) - self.value(reference)
        _, sd = self._prediction.combine((self._weights[name] - self._weights[reference]) * self._slopes)
        reach = sd * NormalDist().inv_cdf((1 + self._confidence) / 2)
        return Ratio(_exp(log), _exp(log - reach), _exp(log + reach), trials, self._confidence)


def _exp(log: float) -> float:
    """Finite and positive, however wide an interval is."""
    return math.exp(min(max(log, -500.0), 500.0))


def _estimate(log: float, sd: float, n: int, confidence: float) -> Estimate:
    reach = sd * NormalDist().inv_cdf((1 + confidence) / 2)
    return Estimate(_exp(log), _exp(log - reach), _exp(log + reach), n, confidence)


def _by_cell(body: Body, read: Callable[[Speed], float | None]) -> dict[str, list[float]]:
    """Cell key -> a value of each of its speeds that tells it."""
    found: dict[str, list[float]] = {}
    for speed in body.speeds:
        if (value := read(speed)) is not None:
            found.setdefault(speed.point.cell, []).append(value)
    return found


def _in_flight(body: Body) -> dict[str, float]:
    return {key: cell.measurement.in_flight for trial in body.trials for key, cell in trial.cells.items()}


def _broke(history: History, name: str) -> bool:
    """Whether a candidate was reverted although it was not slower: it broke a constraint."""
    return any(
        trial.verdict is not None
        and trial.verdict.decision is Decision.REVERT
        and trial.verdict.overall is not None
        and trial.verdict.overall.high >= 1
        for trial in history.of_candidate(name)
    )
