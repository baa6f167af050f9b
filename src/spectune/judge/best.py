"""The best candidate of every slice: which depth for which load, temperature and kind of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spectune.domain.verdict import Best
from spectune.judge.comparison import Comparer, Comparison, slices
from spectune.judge.noise import kind_of


@dataclass(frozen=True, slots=True)
class _Rival:
    """A candidate in one slice: its log gain over the baseline and the p-value."""

    candidate: str
    comparison: Comparison
    log: float
    p: float


def best_by_slice(known: Comparer, baseline: str, candidates: Sequence[str], confidence: float) -> tuple[Best, ...]:
    """The best of each slice against the baseline.

    Within a slice the candidates are many comparisons: a candidate counts as faster only where Holm's (1979) step-down
    test says so, and its interval is given at the confidence of its step. Slices are not adjusted against
    each other. Where nothing is provably faster, the baseline is named.
    """
    found = {candidate: known.compare(candidate, baseline) for candidate in candidates}
    comparisons = {candidate: comparison for candidate, comparison in found.items() if comparison is not None}
    return tuple(_best(known, baseline, comparisons, confidence, cell, domain) for cell, domain in slices(known.table))


def _best(
    known: Comparer,
    baseline: str,
    comparisons: Mapping[str, Comparison],
    confidence: float,
    cell: str,
    domain: str,
) -> Best:
    kind = kind_of(cell, domain)
    rivals = [
        _Rival(candidate, comparison, gain.log, comparison.noise.p_value(gain, kind))
        for candidate, comparison in comparisons.items()
        if (gain := comparison.gain(cell, domain)) is not None and not (cell == "" and comparison.contrast.empty_cells)
    ]
    faster = _provably_faster(rivals, 1 - confidence)
    by_speed = sorted(rivals, key=lambda rival: -rival.log)
    if not faster:
        near = (r for r in by_speed if (q := r.comparison.ratio(confidence, cell, domain)) is not None and q.high >= 1)
        return Best(cell, domain, baseline, None, next((rival.candidate for rival in near), ""))
    best = next(rival for rival in by_speed if rival.candidate in faster)
    ratio = best.comparison.ratio(1 - faster[best.candidate], cell, domain)
    runner_up = ""
    for rival in by_speed:
        if rival is best:
            continue
        duel = known.compare(best.candidate, rival.candidate)
        against = duel.ratio(confidence, cell, domain) if duel is not None else None
        if against is None or against.low <= 1:
            runner_up = rival.candidate
            break
    return Best(cell, domain, best.candidate, ratio, runner_up)


def _provably_faster(rivals: Sequence[_Rival], alpha: float) -> Mapping[str, float]:
    """Candidates that are faster by Holm's test, with the level of their step."""
    faster: dict[str, float] = {}
    for step, rival in enumerate(sorted(rivals, key=lambda rival: rival.p)):
        level = alpha / (len(rivals) - step)
        if rival.p >= level:
            break
        if rival.log > 0:
            faster[rival.candidate] = level
    return faster
