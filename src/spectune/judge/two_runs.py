"""Two saved load tests against each other: at each level and for each metric a ratio, its interval and a word.

Where both runs kept their requests and share prompts, a ratio is the geometric mean over the shared prompts, with a
Student interval widened for the correlation of requests that follow each other. Otherwise it is the quotient of the two
values, taken as log-normal. Either way the variance between two runs of one server is added: a run is one window on one
start of a server, and its own requests do not tell how much the next run would differ.

The words of all differences hold together: their p-values are adjusted by Holm (Scandinavian Journal of Statistics 6,
1979).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr, stdtrit

from spectune.domain.bench_run import (
    RUN_SD,
    Basis,
    BenchRun,
    ComparedLevel,
    Difference,
    Obstacle,
    RunComparison,
    Word,
    log_variance,
    quotient,
)
from spectune.domain.estimate import Estimate, Ratio
from spectune.domain.measurement import Measurement, Outcome, Phase, RequestRecord
from spectune.domain.metrics import METRICS, MetricName
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Sampling

LEAST_PAIRS = 8
"""With fewer shared prompts the values of all requests say more than the pairs."""

COMPARED = (
    MetricName.PER_USER_SPEED,
    MetricName.AGGREGATE_SPEED,
    MetricName.TTFT,
    MetricName.TTFT_P99,
    MetricName.LATENCY,
    MetricName.GOODPUT,
)
"""What is compared. TPOT is left out: request by request it is the per-user speed upside down."""

_BY_REQUEST: Mapping[MetricName, Callable[[RequestRecord], float | None]] = {
    MetricName.PER_USER_SPEED: lambda record: record.speed_tok_s,
    MetricName.TTFT: lambda record: record.ttft_s,
    MetricName.LATENCY: lambda record: record.latency_s,
}
_ENOUGH_FOR_CORRELATION = 10
_MOST_CORRELATION = 0.9
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True, slots=True)
class _Rules:
    """What holds for all levels of a comparison.

    Attributes:
        refused: nothing is comparable.
        any_sampling: cells of another sampling are comparable.
        same_slo: goodput means the same in both runs.
        between: variance of the log of a ratio from run to run.
    """

    refused: bool
    any_sampling: bool
    same_slo: bool
    between: float
    confidence: float


@dataclass(frozen=True, slots=True)
class _Found:
    """A ratio with the probability that equal servers differ so much."""

    ratio: Ratio
    p_value: float
    basis: Basis


def compare_runs(
    before: BenchRun,
    after: BenchRun,
    despite: Collection[Obstacle] = (),
    run_sd: float = RUN_SD,
    confidence: float = 0.95,
) -> RunComparison:
    """The second run against the first.

    Args:
        despite: obstacles to overlook.
        run_sd: standard deviation of the log of one run's speed around that of its server.
    """
    differing = dict(_obstacles(before, after))
    obstacles = {key: text for key, text in differing.items() if key not in despite}
    rules = _Rules(bool(obstacles), Obstacle.SAMPLING in despite, before.slo == after.slo, 2 * run_sd**2, confidence)
    levels = [_level(old, new, rules) for old, new in _matched(before, after)]
    judged = [found for level in levels for found in level.differences if found.p_value is not None]
    adjusted = iter(holm([found.p_value for found in judged if found.p_value is not None]))
    return RunComparison(
        levels=tuple(_with_words(level, adjusted, 1 - confidence) for level in levels),
        obstacles=obstacles,
        overlooked={key: text for key, text in differing.items() if key in despite},
        changes=_changes(before, after),
        tests=len(judged),
        run_sd=run_sd,
        confidence=confidence,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order given: each below 0.05 holds with all others below 0.05 at 95 %."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, reached = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = reached
    return adjusted


def _obstacles(a: BenchRun, b: BenchRun) -> Iterator[tuple[Obstacle, str]]:
    if a.workload.sha256 != b.workload.sha256:
        names = f"{a.workload.name} and {b.workload.name}"
        same = "" if a.workload.name != b.workload.name else ", with other prompts or another cap on answers"
        yield Obstacle.WORKLOAD, f"other workload: {names}{same}"
    elif a.api != b.api:
        yield Obstacle.WORKLOAD, f"other workload: asked as {a.api} and as {b.api}"
    machines = [replace(run.client, memory_bytes=0, kernel="") for run in (a, b)]
    hosts = [_host(run.url) for run in (a, b)]
    if machines[0] != machines[1]:
        yield Obstacle.MACHINE, f"other machine: requests came from {_machine(a)} and from {_machine(b)}"
    elif hosts[0] != hosts[1]:
        yield Obstacle.MACHINE, f"other machine: the servers are on {hosts[0]} and on {hosts[1]}"


def _machine(run: BenchRun) -> str:
    client = run.client
    return f"{client.hostname} ({client.cores} x {client.cpu}{''.join(f', {gpu}' for gpu in client.gpus)})"


def _host(url: str) -> str:
    host = urlsplit(url).hostname or url
    return "this machine" if host in _LOOPBACK else host


def _changes(a: BenchRun, b: BenchRun) -> dict[str, str]:
    """What may be the reason for a difference, or is what the comparison is about."""

    def speculation(run: BenchRun) -> str:
        return "unknown" if run.method is None else f"{run.method.value} k={run.depth or 0}"

    pairs = {
        "model": (a.model, b.model),
        "engine": (a.engine or "unknown", b.engine or "unknown"),
        "engine version": (a.engine_version or "unknown", b.engine_version or "unknown"),
        "speculation": (speculation(a), speculation(b)),
        "spectune": (a.spectune, b.spectune),
    }
    return {name: f"{old} and {new}" for name, (old, new) in pairs.items() if old != new}


def _matched(a: BenchRun, b: BenchRun) -> list[tuple[MeasuredCell | None, MeasuredCell | None]]:
    """Cells of the same level under the same sampling, then those of the same level, then what is left alone."""
    left, right = list(a.measured), list(b.measured)
    order = {id(cell): place for place, cell in enumerate([*left, *right])}
    found: list[tuple[MeasuredCell | None, MeasuredCell | None]] = []
    for same in (_same_cell, _same_level):
        for old in list(left):
            new = next((cell for cell in right if same(cell.measurement, old.measurement)), None)
            if new is not None:
                left.remove(old)
                right.remove(new)
                found.append((old, new))
    found += [(old, None) for old in left] + [(None, new) for new in right]
    return sorted(found, key=lambda pair: min(order[id(cell)] for cell in pair if cell is not None))


def _same_cell(a: Measurement, b: Measurement) -> bool:
    return a.cell == b.cell


def _same_level(a: Measurement, b: Measurement) -> bool:
    return a.cell.level == b.cell.level


def _level(old: MeasuredCell | None, new: MeasuredCell | None, rules: _Rules) -> ComparedLevel:
    if old is None or new is None:
        there = old or new
        assert there is not None
        cell = there.measurement.cell
        return ComparedLevel(cell.level.label, cell.sampling, (), f"only in the {'first' if old else 'second'} run")
    a, b = old.measurement, new.measurement
    unusable, other = _unusable(a, b), _other_sampling(a.cell.sampling, b.cell.sampling)
    refused = rules.refused or bool(unusable) or (bool(other) and not rules.any_sampling)
    differences = []
    for metric in COMPARED:
        before, after = a.metrics.get(metric), b.metrics.get(metric)
        if before is None or after is None or (metric is MetricName.GOODPUT and not rules.same_slo):
            continue
        found = None if refused else _found(metric, old, new, before, after, rules)
        if found is None:
            differences.append(Difference(metric, before, after, Word.NOT_COMPARABLE))
        else:
            word = Word.NO_DIFFERENCE_SHOWN
            differences.append(Difference(metric, before, after, word, found.basis, found.ratio, found.p_value))
    note = "; ".join(filter(None, (other, unusable)))
    doubts = tuple(dict.fromkeys(doubt.name for doubt in (*a.doubts, *b.doubts)))
    return ComparedLevel(a.cell.level.label, a.cell.sampling, tuple(differences), note, doubts)


def _other_sampling(a: Sampling, b: Sampling) -> str:
    return "" if a == b else f"other sampling: {_sampling(a)} and {_sampling(b)}"


def _unusable(a: Measurement, b: Measurement) -> str:
    for which, measurement in (("first", a), ("second", b)):
        for doubt in measurement.doubts:
            if doubt.fatal:
                return f"the {which} run cannot be used here: {doubt.message}"
    return ""


def _sampling(sampling: Sampling) -> str:
    parts = ["model's own" if sampling.temperature is None else f"temperature {sampling.temperature:g}"]
    parts += [f"top_p {sampling.top_p:g}"] if sampling.top_p is not None else []
    parts += ["fixed length (ignore_eos)"] if sampling.ignore_eos else []
    parts += [f"seed {sampling.seed}"] if sampling.seed != 1 else []
    parts += [f"{name} {value}" for name, value in sampling.extra.items()]
    return ", ".join(parts)


def _found(
    metric: MetricName, old: MeasuredCell, new: MeasuredCell, before: Estimate, after: Estimate, rules: _Rules
) -> _Found | None:
    """None where the values have no ratio."""
    if metric in _BY_REQUEST:
        logs = _paired_logs(_BY_REQUEST[metric], old.records, new.records)
        if logs.size >= LEAST_PAIRS:
            return _from_pairs(logs, rules.between, rules.confidence)
    ratio = quotient(after, before, rules.between, rules.confidence)
    if ratio is None:
        return None
    spread = log_variance(before), log_variance(after)
    if spread[0] is None or spread[1] is None:
        return _Found(ratio, 1.0, Basis.ESTIMATES)
    scale = math.sqrt(spread[0] + spread[1] + rules.between)
    distance = abs(math.log(ratio.value))
    p_value = 2 * float(ndtr(-distance / scale)) if scale > 0 else float(distance == 0)
    return _Found(ratio, p_value, Basis.ESTIMATES)


def _paired_logs(
    value: Callable[[RequestRecord], float | None],
    old: Sequence[RequestRecord],
    new: Sequence[RequestRecord],
) -> NDArray[np.float64]:
    """Log ratios of the prompts that both answered, in the order in which the first run sent them."""
    before, after = _logs(value, old), _logs(value, new)
    return np.array([after[prompt] - log for prompt, log in before.items() if prompt in after], dtype=np.float64)


def _logs(value: Callable[[RequestRecord], float | None], records: Sequence[RequestRecord]) -> dict[str, float]:
    """Prompt -> mean log of its served requests in the steady window."""
    seen: dict[str, list[float]] = {}
    for record in sorted(records, key=lambda record: record.sent_ns):
        if record.phase is Phase.STEADY and record.outcome is Outcome.OK:
            found = value(record)
            if found is not None and 0 < found < math.inf:
                seen.setdefault(record.prompt_id, []).append(math.log(found))
    return {prompt: math.fsum(logs) / len(logs) for prompt, logs in seen.items()}


def _from_pairs(logs: NDArray[np.float64], between: float, confidence: float) -> _Found:
    """Mean log ratio; the degrees of freedom are those of a sum of an estimated and a known variance (Satterthwaite,
    Biometrics Bulletin 2, 1946)."""
    n = logs.size
    centre = float(logs.mean())
    residuals = logs - centre
    within = float(np.sum(residuals**2) / (n - 1) / n) * _inflation(residuals)
    total = within + between
    if total == 0:
        exact = math.exp(centre)
        return _Found(Ratio(exact, exact, exact, n, confidence), float(centre == 0), Basis.PAIRS)
    df = min(1e9, (n - 1) * (total / within) ** 2) if within > 0 else 1e9
    scale = math.sqrt(total)
    half = scale * float(stdtrit(df, (1 + confidence) / 2))
    ratio = Ratio(math.exp(centre), math.exp(centre - half), math.exp(centre + half), n, confidence)
    return _Found(ratio, 2 * float(stdtr(df, -abs(centre) / scale)), Basis.PAIRS)


def _inflation(residuals: NDArray[np.float64]) -> float:
    """How much larger the variance of the mean is than for independent values: (1 + r) / (1 - r) for the first
    autocorrelation r, its bias of about -(1 + 3r) / n (Kendall 1954) put back; never below 1."""
    n, total = residuals.size, float(np.sum(residuals**2))
    if n < _ENOUGH_FOR_CORRELATION or total == 0:
        return 1.0
    r = float(np.sum(residuals[1:] * residuals[:-1])) / total
    r = min(_MOST_CORRELATION, r + (1 + 3 * max(r, 0.0)) / n)
    return max(1.0, (1 + r) / (1 - r))


def _with_words(level: ComparedLevel, adjusted: Iterator[float], error: float) -> ComparedLevel:
    return replace(
        level,
        differences=tuple(
            found if found.ratio is None else _with_word(found, found.ratio, next(adjusted), error)
            for found in level.differences
        ),
    )


def _with_word(found: Difference, ratio: Ratio, p_value: float, error: float) -> Difference:
    if p_value >= error:
        return replace(found, p_value=p_value)
    better = (ratio.value > 1) == bool(METRICS[found.metric].larger_is_better)
    return replace(found, p_value=p_value, word=Word.FASTER if better else Word.SLOWER)
