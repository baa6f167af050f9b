"""Trials of a history as lines of the report."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from spectune.domain.deployment import Deployment, Seen
from spectune.domain.measurement import Measurement, Outcome
from spectune.domain.trial import MeasuredCell, Trial, TrialState
from spectune.report.model import CellDoubt, MeasuredRow, Setting, TrialData
from spectune.report.pool import interval, ratio_interval, ttft_p50


def trial_data(trial: Trial) -> TrialData:
    """One trial, ready to be shown."""
    deployment, verdict = trial.deployment, trial.verdict
    seen = deployment.seen if deployment else Seen()
    overall = verdict.overall if verdict else None
    return TrialData(
        number=trial.number,
        attempt=trial.attempt,
        purpose=trial.purpose,
        proposed_because=trial.reason,
        candidate=trial.candidate.id,
        label=trial.candidate.label,
        state=trial.state,
        state_reason=trial.state_reason,
        decision=verdict.decision if verdict else None,
        provisional=verdict.provisional if verdict else True,
        verdict_reason=verdict.reason if verdict else "",
        reference=verdict.reference if verdict else "",
        overall=ratio_interval(overall) if overall else None,
        started_at=trial.started_at,
        minutes=None if trial.ended_at is None else (trial.ended_at - trial.started_at) / 60,
        launches=0 if trial.state is TrialState.PRUNED else trial.attempt,
        command=command_line(deployment) if deployment else "",
        ready_s=deployment.ready_s if deployment else None,
        load_average=deployment.load_average if deployment else None,
        settings=effective_settings(seen),
        findings=trial.verification.findings,
        doubts=tuple(CellDoubt(key, doubt) for key, cell in trial.cells.items() for doubt in cell.measurement.doubts),
        warnings=seen.warnings,
        invalid_output=seen.invalid_output or "",
        rows=tuple(row for cell in trial.cells.values() for row in _rows(cell)),
    )


def command_line(deployment: Deployment) -> str:
    """The launch as one line for a shell, extra environment first."""
    environment = [f"{name}={shlex.quote(value)}" for name, value in sorted(deployment.env.items())]
    return " ".join([*environment, shlex.join(deployment.argv)])


def effective_settings(seen: Seen) -> tuple[Setting, ...]:
    """What the server really runs with, each with where it was read; what could not be told is absent."""
    told = {
        "speculating": seen.speculating,
        "method": None if seen.method is None else seen.method.value,
        "depth": seen.depth,
        "model": seen.model,
    }
    heads = [Setting(name, value, seen.sources.get(name, "")) for name, value in told.items() if value is not None]
    rest = [Setting(name, value, seen.sources.get(name, "")) for name, value in sorted(seen.settings.items())]
    return (*heads, *rest)


def _rows(cell: MeasuredCell) -> Iterator[MeasuredRow]:
    measurement = cell.measurement
    yield _row(cell, "", sum_ok(measurement), sum(measurement.requests.values()) - sum_ok(measurement))
    for domain in measurement.by_domain:
        served = [record for record in cell.records if record.domain == domain]
        ok = sum(record.outcome is Outcome.OK for record in served)
        yield _row(cell, domain, ok if served else None, len(served) - ok if served else None)


def _row(cell: MeasuredCell, domain: str, ok: int | None, failed: int | None) -> MeasuredRow:
    measurement = cell.measurement
    metrics = measurement.by_domain[domain] if domain else measurement.metrics
    return MeasuredRow(
        cell=measurement.cell.key,
        domain=domain,
        metrics={name: interval(estimate) for name, estimate in metrics.items()},
        requests_ok=ok,
        requests_failed=failed,
        acceptance=measurement.acceptance_by_domain.get(domain) if domain else measurement.acceptance,
        ttft_p50_s=ttft_p50([cell], domain),
        window_s=measurement.window_s,
        load_average=measurement.load_average,
        stopped=measurement.stopped,
    )


def sum_ok(measurement: Measurement) -> int:
    """Requests served in a cell, all phases."""
    return measurement.requests.get(Outcome.OK, 0)
