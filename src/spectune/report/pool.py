"""Adding up trials of one candidate: speeds with their intervals, draft counts, command lines that differ."""

from __future__ import annotations

import math
import shlex
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from spectune.domain.estimate import Estimate, Ratio
from spectune.domain.measurement import Acceptance, Outcome, Phase
from spectune.domain.trial import MeasuredCell
from spectune.report.model import Interval


def interval(estimate: Estimate) -> Interval:
    """The estimate as report data: infinite bounds become None."""
    known = math.isfinite(estimate.low) and math.isfinite(estimate.high)
    low, high = (estimate.low, estimate.high) if known else (None, None)
    return Interval(estimate.value, low, high, estimate.n, estimate.confidence)


def ratio_interval(ratio: Ratio) -> Interval:
    """The ratio as report data."""
    return interval(Estimate(ratio.value, ratio.low, ratio.high, ratio.pairs, ratio.confidence))


def pooled(estimates: Sequence[Estimate]) -> Interval | None:
    """One interval from the estimates of several trials; None without any.

    Random-effects mean of the logarithms (DerSimonian and Laird, Controlled Clinical Trials 7, 1986), so that the
    spread between deployments widens the interval beyond what each trial saw within itself. Estimates without a
    known spread, or not above zero, do not enter unless there are no others; then the mean has no known spread.
    """
    if len(estimates) <= 1:
        return interval(estimates[0]) if estimates else None
    confidence = min(estimate.confidence for estimate in estimates)
    usable = [e for e in estimates if 0 < e.low <= e.high < math.inf]
    total = sum(e.n for e in usable or estimates)
    if not usable:
        return Interval(statistics.fmean(e.value for e in estimates), None, None, total, confidence)
    logs = [math.log(e.value) for e in usable]
    variances = [max(_log_error(e) ** 2, 1e-12) for e in usable]
    between = _between_variance(logs, variances)
    weights = [1 / (variance + between) for variance in variances]
    centre = sum(w * x for w, x in zip(weights, logs, strict=True)) / sum(weights)
    half = _quantile(confidence) / math.sqrt(sum(weights))
    return Interval(math.exp(centre), math.exp(centre - half), math.exp(centre + half), total, confidence)


def _log_error(estimate: Estimate) -> float:
    return math.log(estimate.high / estimate.low) / 2 / _quantile(estimate.confidence)


def _quantile(confidence: float) -> float:
    return statistics.NormalDist().inv_cdf((1 + confidence) / 2)


def _between_variance(values: Sequence[float], variances: Sequence[float]) -> float:
    """The method-of-moments estimate, 0 where the values differ less than their own errors explain."""
    weights = [1 / variance for variance in variances]
    total = sum(weights)
    mean = sum(w * x for w, x in zip(weights, values, strict=True)) / total
    excess = sum(w * (x - mean) ** 2 for w, x in zip(weights, values, strict=True)) - (len(values) - 1)
    scale = total - sum(w * w for w in weights) / total
    return max(0.0, excess / scale) if scale > 0 else 0.0


def added(counts: Iterable[Acceptance]) -> Acceptance | None:
    """Draft counts of several windows as of one; None without any.

    Shares per position are weighted by drafts; they are dropped where a window does not tell them.
    """
    parts = list(counts)
    if not parts:
        return None
    drafts = sum(part.drafts for part in parts)
    positions = max(len(part.per_position) for part in parts)
    told = drafts > 0 and all(part.per_position for part in parts if part.drafts)
    shares = tuple(
        sum(part.drafts * part.per_position[i] for part in parts if i < len(part.per_position)) / drafts
        for i in range(positions if told else 0)
    )
    sources = ", ".join(dict.fromkeys(part.source for part in parts if part.source))
    return Acceptance(drafts, sum(p.drafted for p in parts), sum(p.accepted for p in parts), shares, sources)


def ttft_p50(cells: Iterable[MeasuredCell], domain: str = "") -> float | None:
    """Median time to first token of the steady requests that were served, seconds; None without any."""
    seen = [
        record.ttft_s
        for cell in cells
        for record in cell.records
        if record.phase is Phase.STEADY and record.outcome is Outcome.OK and domain in {"", record.domain}
    ]
    times = [ttft for ttft in seen if ttft is not None]
    return statistics.median(times) if times else None


def flag_groups(argv: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """A command line's flags, each with the values that follow it. Negative numbers are values."""
    groups: list[list[str]] = []
    for word in argv[1:]:
        if not groups or (word.startswith("-") and len(word) > 1 and not _is_number(word)):
            groups.append([word])
        else:
            groups[-1].append(word)
    return tuple(tuple(group) for group in groups)


def flag_changes(before: Sequence[str], after: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What to add to and to drop from a command line to get another one; each entry one flag, shell-quoted."""
    had, wants = Counter(flag_groups(before)), Counter(flag_groups(after))
    adding, dropping = wants - had, had - wants
    return tuple(map(shlex.join, adding.elements())), tuple(map(shlex.join, dropping.elements()))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
