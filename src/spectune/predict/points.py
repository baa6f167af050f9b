"""What a campaign's trials say, laid out for the model: where each speed was measured, with which error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import erfinv, ndtri, stdtrit

from spectune.domain.candidate import Candidate, Method
from spectune.domain.deployment import Capacity
from spectune.domain.estimate import Estimate
from spectune.domain.knobs import KnobValue
from spectune.domain.measurement import Acceptance, Measurement
from spectune.domain.metrics import MetricName
from spectune.domain.trial import Trial
from spectune.domain.workload import Cell, LevelKind

TEXT_METHODS: Final = frozenset({Method.NGRAM, Method.NGRAM_POOL, Method.SUFFIX})
"""Methods that draft only where the text so far offers a continuation."""

_DEPLOYMENT_SD, _DEPLOYMENT_DF = 0.015, 2.0
_CELL_SD, _CELL_DF = 0.012, 4.0
"""Scatter of log speed between deployments and between cells of one, before any repeat; worth so many observations."""

UNTOLD_SD = 0.2
"""What a log speed of which no interval is known is off by: one request, whose speed is that of its text."""

QUIET: Final = 4
"""Users up to whom a time to the first token is mostly that of reading the prompt."""

_LEAST_SHARE = 0.01
_FASTEST = 1e9


@dataclass(frozen=True, slots=True)
class Family:
    """Candidates that differ in depth alone. `settings` are sorted pairs."""

    method: Method
    topk: int
    draft_model: str | None
    settings: tuple[tuple[str, KnobValue], ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One speed: of a family (None: no speculation) at a depth, in a cell, with so many sequences in a step.

    Attributes:
        stall_s: seconds per token for which the prompts of the other sequences are read, at most.
    """

    family: Family | None
    depth: int
    cell: str
    group: str
    batch: float
    stall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Speed:
    """One measured speed.

    Attributes:
        trial: its number; the cells of a trial share the deviation of its deployment.
        log: natural logarithm of per-user tok/s.
        variance: of `log` within the window, as its interval tells; None where there is no interval, as of one request.
        wait_s: seconds per token and sequence that aggregate speed loses to prefill and gaps; None where not measured.
        source: the earlier campaign that it is from; "" for this one's own.
        drift: standard deviation, log speed, by which it may differ today against others of its source.
        prompt_s: seconds per token that another sequence's prompt takes, at most.
    """

    point: Point
    trial: int
    log: float
    variance: float | None
    wait_s: float | None
    source: str = ""
    drift: float = 0.0
    prompt_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Scatter:
    """Variances of log speed: between deployments, and between cells of one deployment."""

    deployment: float
    cell: float


def family_of(candidate: Candidate) -> Family | None:
    spec = candidate.speculation
    if spec.method is Method.NONE or spec.depth < 1:
        return None
    return Family(spec.method, spec.topk, spec.draft_model, tuple(sorted(spec.settings.items())))


def group_of(cell: Cell) -> str:
    """Cells of one group share acceptance: the same sampling temperature."""
    return "default" if cell.sampling.temperature is None else f"{cell.sampling.temperature:g}"


def speeds(trials: Iterable[Trial]) -> tuple[Speed, ...]:
    """Every usable speed. Cells with a fatal doubt or without a finite positive speed are left out."""
    return tuple(speed for trial in trials if trial.valid for speed in _speeds(trial))


def _speeds(trial: Trial) -> Iterator[Speed]:
    room = capacity_of(trial).max_running
    prompt_s = _prompt_s(trial)
    for cell in trial.cells.values():
        measured = cell.measurement
        if any(doubt.fatal for doubt in measured.doubts):
            continue
        batch = batch_in(measured.cell, room, measured.in_flight)
        own = _usable(measured.metrics.get(MetricName.PER_USER_SPEED))
        total = _usable(measured.metrics.get(MetricName.AGGREGATE_SPEED))
        estimate = own or total
        if estimate is None or batch is None:
            continue
        log = math.log(estimate.value) - (0.0 if own else math.log(batch))
        wait = max(0.0, batch / total.value - 1 / own.value) if own and total else (0.0 if total else None)
        candidate = trial.candidate
        prompt = prompt_s / _answer(measured) if own else 0.0
        if own and batch > 1:  # prompts of others can't take more of a token's time than all
            prompt = min(prompt, 1 / own.value / (batch - 1))
        point = Point(
            family_of(candidate), candidate.speculation.depth, measured.cell.key, group_of(measured.cell), batch,
            stall_of(prompt, batch),
        )  # fmt: skip
        yield Speed(point, trial.number, log, _log_variance(estimate), wait, prompt_s=prompt)


def stall_of(prompt_s: float, batch: float) -> float:
    """While a user gets a token, each of the others has begun so much of a request."""
    return prompt_s * max(0.0, batch - 1)


def _prompt_s(trial: Trial) -> float:
    """Seconds to read a prompt, at most: the time to the first token where nearly nobody waits for another; 0 where no
    such level was measured, or the load is open, since the number in flight is a result there."""
    told = [
        first.value
        for cell in trial.cells.values()
        if cell.measurement.cell.level.kind is LevelKind.CONCURRENCY
        and cell.measurement.cell.level.users <= QUIET
        and (first := cell.measurement.metrics.get(MetricName.TTFT_P50)) is not None
        and 0 < first.value < math.inf
    ]
    return min(told, default=0.0)


def _answer(measured: Measurement) -> float:
    """Mean tokens of an answer; infinite where it is not told, or the load is open."""
    tokens, requests = (measured.metrics.get(name) for name in (MetricName.AGGREGATE_SPEED, MetricName.REQUEST_RATE))
    if measured.cell.level.kind is not LevelKind.CONCURRENCY or tokens is None or requests is None:
        return math.inf
    if not (0 < requests.value < math.inf and 0 < tokens.value < math.inf):
        return math.inf
    return max(1.0, tokens.value / requests.value)


def batch_in(cell: Cell, max_running: int | None, in_flight: float | None) -> float | None:
    """Sequences in a step: the level's users as far as they fit. In an open loop the number in flight is a result, so
    that it must have been measured; None where it was not."""
    if cell.level.kind is LevelKind.CONCURRENCY:
        users = float(cell.level.users)
    elif in_flight is not None and math.isfinite(in_flight) and in_flight > 0:
        users = max(1.0, in_flight)
    else:
        return None
    return min(users, float(max_running)) if max_running is not None and max_running >= 1 else users


def _usable(estimate: Estimate | None) -> Estimate | None:
    """A speed that a machine can have; anything else is an accident of counting."""
    return estimate if estimate is not None and 1 / _FASTEST < estimate.value < _FASTEST else None


def _log_variance(estimate: Estimate) -> float | None:
    if not (0 < estimate.low <= estimate.high < math.inf) or not 0 < estimate.confidence < 1:
        return None
    reach = math.sqrt(2) * float(erfinv(estimate.confidence))
    return float(np.clip((math.log(estimate.high / estimate.low) / 2 / reach) ** 2, 1e-6, 0.25))


def capacity_of(trial: Trial) -> Capacity:
    return trial.deployment.seen.capacity if trial.deployment is not None else Capacity()


def counts(trials: Iterable[Trial]) -> Iterator[tuple[Family, int, str, Acceptance]]:
    """Acceptance of every usable cell that tells it: (family, depth, group, counts)."""
    for trial in trials:
        family = family_of(trial.candidate)
        if family is None or not trial.valid:
            continue
        for cell in trial.cells.values():
            acceptance = cell.measurement.acceptance
            if acceptance is None or acceptance.drafts < 1 or any(doubt.fatal for doubt in cell.measurement.doubts):
                continue
            yield family, trial.candidate.speculation.depth, group_of(cell.measurement.cell), acceptance


def drafting_share(family: Family, trials: Iterable[Trial]) -> float:
    """Share of a family's steps that had a draft, from the counters; 1 for methods that draft at every step, and where
    the counters do not tell."""
    if family.method not in TEXT_METHODS:
        return 1.0
    with_draft = steps = 0
    for trial in trials:
        if family_of(trial.candidate) != family or not trial.valid:
            continue
        for cell in trial.cells.values():
            found = _steps(cell.measurement)
            if found is not None:
                with_draft, steps = with_draft + found[0], steps + found[1]
    return max(_LEAST_SHARE, with_draft / steps) if steps else 1.0


def _steps(measured: Measurement) -> tuple[int, int] | None:
    """Steps with a draft, and all: a step without a draft emits one token."""
    before, after, acceptance = measured.counters_before, measured.counters_after, measured.acceptance
    if before is None or after is None or acceptance is None:
        return None
    if before.output_tokens is None or after.output_tokens is None or before.drafts is None:
        return None
    undrafted = after.output_tokens - before.output_tokens - acceptance.drafts - acceptance.accepted
    return acceptance.drafts, acceptance.drafts + max(0, undrafted)


def scatter_of(found: Sequence[Speed], candidate_of: Mapping[int, str]) -> Scatter:
    """Variances from repeated deployments of the same candidate, pulled towards what machines usually do.

    Args:
        candidate_of: trial number -> candidate id.
    """
    variances = [speed.variance for speed in found if speed.variance is not None]
    told = float(np.mean(variances)) if variances else _CELL_SD**2
    deployment = [_DEPLOYMENT_DF * _DEPLOYMENT_SD**2, _DEPLOYMENT_DF]
    within = [_CELL_DF * told, _CELL_DF]
    for candidate in set(candidate_of.values()):
        rows: dict[int, dict[str, float]] = {}
        for speed in found:
            if candidate_of.get(speed.trial) == candidate:
                rows.setdefault(speed.trial, {})[speed.point.cell] = speed.log
        cells = sorted(set.intersection(*(set(row) for row in rows.values()))) if len(rows) > 1 else []
        if not cells:
            continue
        logs = np.array([[row[cell] for cell in cells] for row in rows.values()])
        means = logs.mean(axis=1)
        rest = logs - means[:, None] - logs.mean(axis=0) + logs.mean()
        deployment[0] += float(((means - means.mean()) ** 2).sum())
        deployment[1] += len(rows) - 1
        within[0] += float((rest**2).sum())
        within[1] += (len(rows) - 1) * (len(cells) - 1)
    # Few repeats leave the variance itself uncertain: the interval of Student's t is wider than the normal one.
    wider = float(stdtrit(deployment[1], 0.95) / ndtri(0.95)) ** 2
    return Scatter(wider * deployment[0] / deployment[1], within[0] / within[1])
