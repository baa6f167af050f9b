"""Constraints: what a candidate must not break, whatever it gains. Each is kept, broken, or can't be told."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from scipy.special import betaincinv, ndtri

from spectune.domain.deployment import Capacity
from spectune.domain.estimate import Estimate
from spectune.domain.finding import Status
from spectune.domain.measurement import Outcome, Phase, RequestRecord
from spectune.domain.metrics import MetricName
from spectune.domain.spec import CampaignSpec, is_named
from spectune.domain.trial import MeasuredCell, Trial
from spectune.domain.workload import Level
from spectune.judge.comparison import Comparer, Comparison
from spectune.judge.table import fatal_doubts
from spectune.judge.values import log_variance

_LATE = 0.01
"""Share of requests that may wait longer than a p99 bound."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint and one candidate.

    Attributes:
        status: VIOLATED only where it is proven to be broken, OK only where it is proven to be kept.
        words: for people, with the numbers.
        bars: whether the candidate must not win by it: it is broken, the engine does not tell, nothing was measured, or
            the value measured lies on the wrong side although its interval reaches over the limit.
    """

    status: Status
    words: str
    bars: bool


@dataclass(frozen=True)
class Constraints:
    """A campaign's constraints over what was measured so far.

    Attributes:
        trials: every finished trial that may be compared.
        baseline: candidate id.
    """

    spec: CampaignSpec
    trials: tuple[Trial, ...]
    baseline: str

    def of(self, candidate: str) -> tuple[Constraint, ...]:
        """All but those on the objective's metric, which are `slowdowns`."""
        own = [trial for trial in self.trials if trial.valid and trial.candidate.id == candidate]
        return (
            *self._room(own),
            *self._floors(own),
            *self._shares(candidate),
            *self._first_tokens(own),
        )

    def slowdowns(self, against_baseline: Comparison) -> Iterator[Constraint]:
        """Losses at single levels in the objective's metric."""
        most = self.spec.constraints.max_slowdown
        if most is None:
            return
        for level, keys in self._levels.items():
            ratio = against_baseline.ratio_over(keys, self.spec.objective.confidence)
            if ratio is None:
                yield Constraint(Status.UNKNOWN, f"{level.label}: not compared with the baseline", bars=False)
            elif ratio.high < 1 - most:
                words = f"{level.label} lose {ratio.percent}, more than the {100 * most:g} % allowed"
                yield Constraint(Status.VIOLATED, words, bars=True)
            else:
                status = Status.OK if ratio.low >= 1 - most else Status.UNKNOWN
                seen = f"{level.label}: {ratio.percent}, a loss of {100 * most:g} % is allowed"
                yield Constraint(status, seen, bars=False)

    @cached_property
    def _levels(self) -> Mapping[Level, tuple[str, ...]]:
        """Level -> keys of its cells."""
        cells = self.spec.cells
        return {
            level: tuple(c.key for c in cells if c.level == level) for level in dict.fromkeys(c.level for c in cells)
        }

    @cached_property
    def _together(self) -> Comparer:
        """Comparisons in aggregate speed."""
        goal = replace(self.spec.objective, maximise=MetricName.AGGREGATE_SPEED, per_gpu=False)
        return Comparer.of(replace(self.spec, objective=goal), self.trials)

    def _room(self, own: Sequence[Trial]) -> Iterator[Constraint]:
        rooms = [trial.deployment.seen.capacity if trial.deployment is not None else Capacity() for trial in own]
        floors = (
            (self.spec.constraints.min_kv_tokens, [room.kv_tokens for room in rooms], "tokens of KV room"),
            (self.spec.constraints.min_running_requests, [room.max_running for room in rooms], "running requests"),
        )
        for floor, told, what in floors:
            if floor is None:
                continue
            seen = min((room for room in told if room is not None), default=None)
            if seen is not None and seen < floor:
                words = f"only {seen} {what}, at least {floor} are demanded"
                yield Constraint(Status.VIOLATED, words, bars=True)
            elif seen is None or None in told:
                words = f"whether there are at least {floor} {what} is not told by the engine"
                yield Constraint(Status.UNKNOWN, words, bars=True)
            else:
                yield Constraint(Status.OK, f"{seen} {what}, at least {floor} are demanded", bars=False)

    def _floors(self, own: Sequence[Trial]) -> Iterator[Constraint]:
        """Aggregate speed against what is demanded in tok/s: the mean of the logs over trials and temperatures."""
        for level, keys in self._levels.items():
            floors = [floor for key, floor in self.spec.constraints.min_aggregate_tok_s.items() if is_named(key, level)]
            if not floors:
                continue
            floor, where = max(floors), f"all together at {level.label}"
            found = [
                [(math.log(e.value), log_variance(e)) for cell in _usable(trial, keys) if (e := _aggregate(cell))]
                for trial in own
            ]
            found = [logs for logs in found if logs]
            if not found:
                words = f"{where}: no speed was measured, at least {floor:g} tok/s are demanded"
                yield Constraint(Status.UNKNOWN, words, bars=True)
                continue
            log = fmean(fmean(value for value, _ in logs) for logs in found)
            within = fmean(fmean(spread for _, spread in logs) / len(logs) for logs in found)
            sd = math.sqrt((within + self._together.noise.tau**2) / len(found))
            reach = sd * float(ndtri((1 + self.spec.objective.confidence) / 2))
            value, low, high = math.exp(log), math.exp(log - reach), math.exp(log + reach)
            words = f"{where} {value:.4g} tok/s ({low:.4g} to {high:.4g}), at least {floor:g} are demanded"
            yield _judged(words, value, low, high, floor)

    def _shares(self, candidate: str) -> Iterator[Constraint]:
        """Aggregate speed against the baseline's."""
        share = self.spec.constraints.min_aggregate_share
        if share is None:
            return
        comparison = self._together.compare(candidate, self.baseline)
        for level, keys in self._levels.items():
            ratio = comparison.ratio_over(keys, self.spec.objective.confidence) if comparison else None
            where = f"all together at {level.label}"
            if ratio is None:
                words = f"{where}: not compared with the baseline, at least {100 * share:g} % of it are demanded"
                yield Constraint(Status.UNKNOWN, words, bars=True)
            else:
                words = f"{where} {ratio.percent} against the baseline, at least {100 * share:g} % of it are demanded"
                yield _judged(words, ratio.value, ratio.low, ratio.high, share)

    def _first_tokens(self, own: Sequence[Trial]) -> Iterator[Constraint]:
        """Whether no more than one in a hundred requests waits longer: exact bounds of a share (Clopper and Pearson
        1934) over all trials, each at the campaign's confidence."""
        most = self.spec.constraints.max_ttft_p99_s
        if most is None:
            return
        for level, keys in self._levels.items():
            waits = [_wait(r) for trial in own for cell in _usable(trial, keys) for r in cell.records if _counts(r)]
            if not waits:
                words = f"no wait for a first token was measured at {level.label}, at most {most:g} s are allowed"
                yield Constraint(Status.UNKNOWN, words, bars=True)
                continue
            n, late = len(waits), sum(wait > most for wait in waits)
            confidence = self.spec.objective.confidence
            low = float(betaincinv(late, n - late + 1, 1 - confidence)) if late else 0.0
            high = float(betaincinv(late + 1, n - late, confidence)) if late < n else 1.0
            words = f"{late} of {n} requests at {level.label} waited over {most:g} s for their first token"
            if low > _LATE:
                yield Constraint(Status.VIOLATED, f"{words}, more than the 1 in 100 allowed", bars=True)
            elif high <= _LATE:
                yield Constraint(Status.OK, f"{words}, 1 in 100 is allowed", bars=False)
            else:
                words = f"{words}: too few requests to prove that it is at most 1 in 100"
                yield Constraint(Status.UNKNOWN, words, bars=late / n > _LATE)


def broken(found: Sequence[Constraint]) -> str:
    """Words of those that are proven to be broken; "" where none is."""
    return "; ".join(constraint.words for constraint in found if constraint.status is Status.VIOLATED)


def unproven(found: Sequence[Constraint]) -> tuple[str, ...]:
    """Words of those that can't be told and stand in the way of winning."""
    return tuple(constraint.words for constraint in found if constraint.status is Status.UNKNOWN and constraint.bars)


def in_words(found: Sequence[Constraint]) -> str:
    """All of them, by status; "" where there are none."""
    heads = {Status.OK: "kept", Status.UNKNOWN: "not proven", Status.VIOLATED: "broken"}
    parts = [
        f"{head}: {'; '.join(words)}"
        for status, head in heads.items()
        if (words := [constraint.words for constraint in found if constraint.status is status])
    ]
    return ". ".join(parts)


def _judged(words: str, value: float, low: float, high: float, floor: float) -> Constraint:
    if high < floor:
        return Constraint(Status.VIOLATED, words, bars=True)
    if low >= floor:
        return Constraint(Status.OK, words, bars=False)
    return Constraint(Status.UNKNOWN, f"{words}, which is not proven", bars=value < floor)


def _usable(trial: Trial, keys: Sequence[str]) -> Iterator[MeasuredCell]:
    found = (trial.cells[key] for key in keys if key in trial.cells)
    return (cell for cell in found if not fatal_doubts(cell.measurement))


def _aggregate(cell: MeasuredCell) -> Estimate | None:
    estimate = cell.measurement.metrics.get(MetricName.AGGREGATE_SPEED)
    return estimate if estimate is not None and 0 < estimate.value < math.inf else None


def _counts(record: RequestRecord) -> bool:
    """Whether a request says how long its user waited. One that was cut off by the end of the measurement does not."""
    return record.phase is Phase.STEADY and not (record.outcome is Outcome.CANCELLED and record.ttft_s is None)


def _wait(record: RequestRecord) -> float:
    """Seconds to the first token; forever where none came."""
    wait = record.ttft_s
    return math.inf if wait is None else wait
