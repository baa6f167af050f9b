"""What a campaign measured, in the forms that other planning tools take: acceptance for NVIDIA's AIConfigurator, and
the surface of speed over depth and load as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from statistics import fmean

from spectune.domain.candidate import Candidate, Method
from spectune.domain.history import History
from spectune.domain.measurement import Acceptance, Measurement
from spectune.domain.metrics import METRICS, MetricName
from spectune.domain.trial import Trial

_EVERY_STEP = frozenset({Method.MTP, Method.EAGLE, Method.EAGLE3, Method.DRAFT, Method.DFLASH})
"""Methods that draft at every step, so that accepted tokens a draft are accepted tokens a step. Looking text up is not
among them: steps without a draft are not counted by engines."""

_SPEEDS = (MetricName.PER_USER_SPEED, MetricName.AGGREGATE_SPEED)
_HEAD = ("candidate_id", "candidate", "method", "depth", "topk", "cell", "level", "level_kind", "temperature", "trials")
_TAIL = ("accept_length [tokens/step]", "kv_tokens", "max_running_requests", "marks")


def acceptance_export(history: History) -> dict[str, object]:
    """Measured acceptance as AIConfigurator takes it.

    Its options are `--nextn`, the depth, and `--nextn-accepted`, the mean number of drafted tokens accepted a decode
    step, 0 to depth, bonus token not counted. Earlier releases take `--nextn-accept-rates` instead: for each position
    the share accepted given that all before it were. AIConfigurator costs drafts as MTP layers, whatever the method.

    Returns:
        "tool", "simulated" (why nothing here is real; empty where it is), and "candidates": for each that drafted a
        chain at every step, over all its measurements and by cell. What an engine made up (forced acceptance) and
        measurements with a fatal doubt are left out.
    """
    entries = [_entry(candidate, trials) for candidate, trials in _by_candidate(history) if _drafts_chains(candidate)]
    return {
        "tool": "aiconfigurator",
        "campaign": history.opened.spec.name,
        "simulated": history.opened.provenance.simulated,
        "candidates": [entry for entry in entries if entry],
    }


def surface_csv(history: History) -> str:
    """One line a candidate and cell: mean, least and greatest speed over its trials, acceptance over all of them, and
    room. Units are in the headings; what is not known is empty. Unlike acceptance_export, it keeps what was made up by
    an engine, with the mark "invalid-output", and simulated campaigns, with the mark "simulated".
    """
    speeds = [f"{name.value}{part} [{METRICS[name].unit}]" for name in _SPEEDS for part in ("", "_min", "_max")]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_HEAD, *speeds, *_TAIL])
    for candidate, trials in _by_candidate(history):
        for key in dict.fromkeys(key for trial in trials for key in trial.cells):
            measured = [found for trial in trials if (found := _measured(trial, key)) is not None]
            if measured:
                writer.writerow(_line(history, candidate, trials, measured))
    return out.getvalue()


def _by_candidate(history: History) -> Iterator[tuple[Candidate, tuple[Trial, ...]]]:
    for name, candidate in history.candidates.items():
        if trials := history.of_candidate(name):
            yield candidate, trials


def _drafts_chains(candidate: Candidate) -> bool:
    return candidate.speculation.method in _EVERY_STEP and candidate.speculation.topk == 1


def _measured(trial: Trial, key: str) -> Measurement | None:
    """A measurement that may be used."""
    cell = trial.cells.get(key)
    if cell is None or any(doubt.fatal for doubt in cell.measurement.doubts):
        return None
    return cell.measurement


def _made_up(trial: Trial) -> bool:
    return trial.deployment is not None and trial.deployment.seen.invalid_output is not None


def _entry(candidate: Candidate, trials: tuple[Trial, ...]) -> dict[str, object] | None:
    real = [trial for trial in trials if not _made_up(trial)]
    by_cell: dict[str, list[Acceptance]] = {}
    for trial in real:
        for key in trial.cells:
            found = _measured(trial, key)
            if found is not None and found.acceptance is not None and found.acceptance.drafts:
                by_cell.setdefault(key, []).append(found.acceptance)
    if not by_cell:
        return None
    depth = candidate.speculation.depth
    overall = _pooled(depth, [part for parts in by_cell.values() for part in parts])
    return {
        "candidate": candidate.id,
        "label": candidate.label,
        "method": candidate.speculation.method.value,
        **overall,
        "arguments": ["--nextn", str(depth), "--nextn-accepted", f"{overall['nextn_accepted']:.4g}"],
        "cells": {key: _pooled(depth, parts) for key, parts in by_cell.items()},
    }


def _pooled(depth: int, parts: Iterable[Acceptance]) -> dict[str, object]:
    parts = tuple(parts)
    drafts, accepted = sum(part.drafts for part in parts), sum(part.accepted for part in parts)
    pooled: dict[str, object] = {"nextn": depth, "nextn_accepted": accepted / drafts, "drafts": drafts}
    rates = _conditional(depth, parts)
    return {**pooled, "nextn_accept_rates": rates} if rates else pooled


def _conditional(depth: int, parts: tuple[Acceptance, ...]) -> list[float]:
    """Share accepted at each position among the drafts that got there; empty where not every part tells."""
    if any(len(part.per_position) < depth for part in parts):
        return []
    reached = [sum(part.drafts * part.per_position[i] for part in parts) for i in range(depth)]
    before = [float(sum(part.drafts for part in parts)), *reached[:-1]]
    return [now / then if then else 0.0 for now, then in zip(reached, before, strict=True)]


def _line(
    history: History, candidate: Candidate, trials: tuple[Trial, ...], measured: list[Measurement]
) -> Iterator[object]:
    spec, cell = candidate.speculation, measured[0].cell
    yield from (candidate.id, candidate.label, spec.method.value, spec.depth, spec.topk)
    yield from (cell.key, cell.level.value, cell.level.kind.value, cell.sampling.temperature, len(measured))
    for name in _SPEEDS:
        found = [part.metrics[name].value for part in measured if name in part.metrics]
        yield from (fmean(found), min(found), max(found)) if found else (None,) * 3
    drafts = [part.acceptance for part in measured if part.acceptance is not None]
    steps = sum(part.drafts for part in drafts)
    yield 1 + sum(part.accepted for part in drafts) / steps if steps else None
    seen = next((trial.deployment.seen for trial in trials if trial.deployment is not None), None)
    yield from (seen.capacity.kv_tokens, seen.capacity.max_running) if seen is not None else (None, None)
    marks = ["simulated"] if history.opened.provenance.simulated else []
    yield " ".join([*marks, *(["invalid-output"] if any(map(_made_up, trials)) else [])])
