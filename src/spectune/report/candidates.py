"""Candidates of a history: pooled speeds, acceptance, room, and the frontier among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spectune.domain.candidate import Candidate, Method
from spectune.domain.deployment import Capacity
from spectune.domain.frontier import Point
from spectune.domain.frontier import frontier as marked
from spectune.domain.history import History
from spectune.domain.measurement import Acceptance
from spectune.domain.metrics import MetricName
from spectune.domain.trial import MeasuredCell, Trial
from spectune.report.model import AcceptanceRow, CandidateCell, CandidateData, CellInfo, FrontierPoint
from spectune.report.pool import added, flag_changes, pooled, ttft_p50


def candidate_data(
    history: History, candidate: Candidate, answer: str | None, cells: Sequence[CellInfo]
) -> CandidateData:
    """Everything measured of one candidate, pooled over its comparable trials."""
    trials = history.of_candidate(candidate.id)
    argv = launched(history, candidate.id)
    add, drop = flag_changes(launched(history, history.baseline.id), argv) if argv else ((), ())
    is_baseline = candidate.id == history.baseline.id
    return CandidateData(
        id=candidate.id,
        label=candidate.label,
        is_baseline=is_baseline,
        is_answer=candidate.id == answer,
        method=candidate.speculation.method.value,
        depth=candidate.speculation.depth,
        neutral=neutral(candidate),
        flags=add,
        dropped_flags=drop,
        family=_family(candidate),
        trials=tuple(trial.number for trial in trials),
        cells=tuple(_cell(cell.key, trials) for cell in cells),
        acceptance=_acceptance(trials, cells),
        room=_room(trials),
    )


def in_order(history: History) -> tuple[Candidate, ...]:
    """The baseline, then families as they were first tried, each from its smallest depth to its largest."""
    tried = {trial.candidate.id: trial.candidate for trial in history.ordered}
    tried.pop(history.baseline.id, None)
    families = list(dict.fromkeys(map(_family, tried.values())))
    rest = sorted(tried.values(), key=lambda c: (families.index(_family(c)), c.speculation.depth))
    return (history.baseline, *rest)


def launched(history: History, candidate_id: str) -> tuple[str, ...]:
    """The command line of a candidate's last launch, comparable or not; empty where it never ran."""
    for trial in reversed(history.ordered):
        if trial.candidate.id == candidate_id and trial.deployment is not None:
            return trial.deployment.argv
    return ()


def neutral(candidate: Candidate) -> str:
    """A candidate's speculation in words that hold for every engine."""
    spec = candidate.speculation
    if spec.method is Method.NONE:
        return "no speculation"
    drafted = "1 token" if spec.depth == 1 else f"{spec.depth} tokens"
    branches = f" in {spec.topk} branches" if spec.topk > 1 else ""
    return f"{_IN_WORDS[spec.method]}, up to {drafted} per verify step{branches}"


_IN_WORDS = {
    Method.DRAFT: "draft model",
    Method.MTP: "multi-token prediction",
    Method.EAGLE: "EAGLE head",
    Method.EAGLE3: "EAGLE-3 head",
    Method.DFLASH: "DFlash head",
    Method.NGRAM: "n-gram lookup in the request",
    Method.NGRAM_POOL: "n-gram pool of all requests",
    Method.SUFFIX: "suffix lookup",
}


def _family(candidate: Candidate) -> str:
    spec = candidate.speculation
    return replace(candidate, speculation=replace(spec, depth=0)).label.replace(" k=0", "")


def _trusted(key: str, trials: Sequence[Trial]) -> list[MeasuredCell]:
    """The cell of every trial in which no doubt forbids its use."""
    found = [trial.cells[key] for trial in trials if key in trial.cells]
    return [cell for cell in found if not any(doubt.fatal for doubt in cell.measurement.doubts)]


def _cell(key: str, trials: Sequence[Trial]) -> CandidateCell:
    cells = _trusted(key, trials)
    seen = [cell.measurement for cell in cells]
    domains = dict.fromkeys(domain for measurement in seen for domain in measurement.by_domain)
    by_domain = {
        domain: pooled(
            [
                m.by_domain[domain][MetricName.PER_USER_SPEED]
                for m in seen
                if MetricName.PER_USER_SPEED in m.by_domain.get(domain, {})
            ]
        )
        for domain in domains
    }
    return CandidateCell(
        cell=key,
        per_user=pooled([m.metrics[MetricName.PER_USER_SPEED] for m in seen if MetricName.PER_USER_SPEED in m.metrics]),
        aggregate=pooled(
            [m.metrics[MetricName.AGGREGATE_SPEED] for m in seen if MetricName.AGGREGATE_SPEED in m.metrics]
        ),
        by_domain={domain: speed for domain, speed in by_domain.items() if speed is not None},
        ttft_p50_s=ttft_p50(cells),
    )


def _acceptance(trials: Sequence[Trial], cells: Sequence[CellInfo]) -> tuple[AcceptanceRow, ...]:
    rows = []
    for temperature in dict.fromkeys(cell.temperature for cell in cells):
        keys = [cell.key for cell in cells if cell.temperature == temperature]
        seen = [cell.measurement for key in keys for cell in _trusted(key, trials)]
        slices: dict[str, list[Acceptance]] = {"": [m.acceptance for m in seen if m.acceptance is not None]}
        for measurement in seen:
            for domain, counts in measurement.acceptance_by_domain.items():
                slices.setdefault(domain, []).append(counts)
        for domain, parts in slices.items():
            total = added(parts)
            if total is not None and total.drafted:
                rows.append(
                    AcceptanceRow(
                        temperature,
                        domain,
                        total.drafts,
                        total.drafted,
                        total.accepted,
                        total.length,
                        total.rate,
                        total.per_position,
                    )
                )
    return tuple(rows)


def _room(trials: Sequence[Trial]) -> Capacity:
    """Room as the last comparable deployment that told any of it."""
    for trial in reversed(trials):
        if trial.deployment is not None and trial.deployment.seen.capacity != Capacity():
            return trial.deployment.seen.capacity
    return Capacity()


def frontier(candidates: Sequence[CandidateData]) -> tuple[FrontierPoint, ...]:
    """Every candidate in every cell where both speeds are known, marked where another one of the cell dominates it."""
    points = [
        Point(c.id, cell.cell, cell.per_user.value, cell.aggregate.value, c.room.kv_tokens)
        for c in candidates
        for cell in c.cells
        if cell.per_user is not None and cell.aggregate is not None
    ]
    return tuple(
        FrontierPoint(p.candidate, p.group, p.per_user, p.aggregate, p.kv_tokens, p.dominated) for p in marked(points)
    )
