"""What one measurement says under an objective: logs of the metric, each with the variance that it knows of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from statistics import fmean, variance
from typing import NamedTuple

from scipy.special import ndtri

from spectune.domain.estimate import Estimate
from spectune.domain.measurement import Outcome, Phase, RequestRecord, Slo
from spectune.domain.metrics import MetricName
from spectune.domain.spec import ObjectiveSpec
from spectune.domain.trial import MeasuredCell, Trial
from spectune.domain.workload import LevelKind

_PARALLEL = (
    ("tp-size", "tensor-parallel-size", "tp"),
    ("pp-size", "pipeline-parallel-size", "pp"),
    ("dp-size", "data-parallel-size", "dp"),
)
"""Spellings of the settings whose product is the number of GPUs."""


class Column(NamedTuple):
    """One prompt in one cell; the unit in which trials are paired. Domain and prompt are "" where a cell has one value
    (aggregate speed, goodput)."""

    cell: str
    domain: str
    prompt: str


Values = Iterator[tuple[Column, tuple[float, float]]]
"""Column -> natural log of the metric, and the variance of that log where the measurement tells it; else 0."""


def reader(goal: ObjectiveSpec) -> Callable[[Trial, MeasuredCell], Values]:
    """How the values of an objective are read from a cell of a trial."""
    match goal.maximise:
        case MetricName.AGGREGATE_SPEED:
            read = _aggregate
        case MetricName.GOODPUT:
            read = partial(_goodput, goal.slo or Slo())
        case _:
            read = _by_prompt
    return partial(_per_gpu, read) if goal.per_gpu else lambda trial, cell: read(cell)


def gpus_of(trial: Trial) -> int:
    """GPUs that a trial's server used, by what it read back, was given, or was launched with; 1 where nothing is told.

    Copies of the model that share the GPUs of one (attention in data-parallel ranks) are not counted again.
    """
    deployment = trial.deployment
    words = deployment.argv if deployment else ()
    told = {**_flags(words), **trial.candidate.knobs, **(deployment.seen.settings if deployment else {})}
    shared = bool(told.get("enable-dp-attention")) or str(told.get("attn-dp-size", 1)) not in {"1", "0", "None"}
    count = 1
    for names in _PARALLEL[:2] if shared else _PARALLEL:
        found = next((told[name] for name in names if name in told), 1)
        count *= max(1, int(found)) if str(found).isdecimal() else 1
    return count


def _flags(words: tuple[str, ...]) -> dict[str, str]:
    """Flags of a command line with the word that follows each."""
    found: dict[str, str] = {}
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        if word.startswith("--"):
            name, equals, value = word.removeprefix("--").partition("=")
            found[name] = value if equals else following
            if not equals and (not following or following.startswith("-")):
                found[name] = "true"
    return found


def _per_gpu(read: Callable[[MeasuredCell], Values], trial: Trial, cell: MeasuredCell) -> Values:
    shift = math.log(gpus_of(trial))
    return ((column, (log - shift, spread)) for column, (log, spread) in read(cell))


def _by_prompt(cell: MeasuredCell) -> Values:
    seen: dict[Column, list[float]] = {}
    key = cell.measurement.cell.key
    for record in _steady(cell):
        speed = record.speed_tok_s
        if record.outcome is Outcome.OK and speed is not None and 0 < speed < math.inf:
            seen.setdefault(Column(key, record.domain, record.prompt_id), []).append(math.log(speed))
    for column, logs in seen.items():
        yield column, (math.fsum(logs) / len(logs), 0.0)


def _aggregate(cell: MeasuredCell) -> Values:
    estimate = cell.measurement.metrics.get(MetricName.AGGREGATE_SPEED)
    if estimate is not None and 0 < estimate.value < math.inf:
        yield Column(cell.measurement.cell.key, "", ""), (math.log(estimate.value), log_variance(estimate))


def _goodput(slo: Slo, cell: MeasuredCell) -> Values:
    """Requests of the steady window within the bounds, a second, from the raw records.

    Half a request is added, so that none at all has a logarithm too, and a spread that says how little it tells
    (Haldane 1956, Anscombe 1956). The spread is that of a share of the requests sent, and in a closed loop also that of
    how many were sent: the number of renewals in a window varies by the squared coefficient of variation of their
    length over their number (Cox, Renewal Theory, 1962).
    """
    records, window = _steady(cell), cell.measurement.window_s
    if not records or window <= 0:
        return
    good = sum(map(slo.is_met, records)) + 0.5
    spread = (1 - good / (len(records) + 1)) / good
    lengths = [seconds for record in records if (seconds := record.latency_s) is not None]
    if cell.measurement.cell.level.kind is LevelKind.CONCURRENCY and len(lengths) > 1 and fmean(lengths) > 0:
        spread += variance(lengths) / fmean(lengths) ** 2 / len(lengths)
    yield Column(cell.measurement.cell.key, "", ""), (math.log(good / window), spread)


def _steady(cell: MeasuredCell) -> list[RequestRecord]:
    return [record for record in cell.records if record.phase is Phase.STEADY]


def log_variance(estimate: Estimate) -> float:
    """Variance of the log from the interval's width; 0 where the interval is unknown, since the scatter of repeated
    deployments, which is estimated anyway, contains the scatter within a window."""
    if not (0 < estimate.low <= estimate.high < math.inf):
        return 0.0
    z = float(ndtri((1 + estimate.confidence) / 2))
    return (math.log(estimate.high / estimate.low) / 2 / z) ** 2
