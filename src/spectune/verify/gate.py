"""The gate: which findings a trial has at each stage, and what state they leave it in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from spectune.domain.asked import Asked
from spectune.domain.deployment import Evidence, ListenerOwner, Seen
from spectune.domain.finding import Answer, Finding, ProbeRun, Status, Verification
from spectune.domain.trial import MeasuredCell, TrialState
from spectune.verify.catalogue import CHECKS
from spectune.verify.check import Stage
from spectune.verify.observed import Left, Observed, ProbeAnswers
from spectune.verify.sampling import is_sampled
from spectune.verify.scores import is_task


def on_start(asked: Asked, observed: Observed) -> Verification:
    """Findings that need nothing but a server that is ready. A violation here saves the time for the probes."""
    return _findings(Stage.START, asked, observed)


def on_answers(asked: Asked, observed: Observed, answers: Sequence[ProbeAnswers]) -> Verification:
    """Findings about the probe answers; with none given they are unknown."""
    return _findings(Stage.ANSWERS, asked, replace(observed, answers=tuple(answers)))


def before_measuring(asked: Asked, observed: Observed, answers: Sequence[ProbeAnswers] = ()) -> Verification:
    """All findings that are made before the load: `on_start` and `on_answers`."""
    return on_start(asked, observed) + on_answers(asked, observed, answers)


def after_measuring(asked: Asked, observed: Observed, cells: Mapping[str, MeasuredCell]) -> Verification:
    """Findings about what happened under load.

    Args:
        observed: evidence taken after the last cell.
        cells: cell key -> what was measured.
    """
    return _findings(Stage.LOAD, asked, replace(observed, cells=cells))


def after_stopping(asked: Asked, left: Left) -> Verification:
    """Findings about what the server left behind."""
    gone = Evidence("", {}, ListenerOwner.UNKNOWN)
    return _findings(Stage.STOP, asked, Observed(gone, Seen(), left=left))


def _findings(stage: Stage, asked: Asked, observed: Observed) -> Verification:
    return Verification(
        tuple(check(asked, observed) for check in CHECKS if check.stage is stage and check.applies(asked))
    )


def state_of(verification: Verification) -> tuple[TrialState, str]:
    """The state of a trial with these findings, and why: "speculation-live: speculation is off".

    INVALID for a violation that forbids measuring; UNKNOWN where anything else is not ok, or nothing was checked.
    """
    blocking = verification.invalid_because
    if blocking is not None:
        return TrialState.INVALID, _reason(blocking)
    open_findings = [finding for finding in verification.findings if finding.status is not Status.OK]
    if open_findings:
        more = f" (and {len(open_findings) - 1} more)" if len(open_findings) > 1 else ""
        return TrialState.UNKNOWN, _reason(open_findings[0]) + more
    if not verification.findings:
        return TrialState.UNKNOWN, "nothing was checked"
    return TrialState.VALID, ""


def _reason(finding: Finding) -> str:
    return f"{finding.check}: {finding.seen}"


def greedy_of(runs: Iterable[ProbeRun]) -> list[ProbeRun]:
    """The runs of plain probes: neither sampled nor tasks."""
    return [run for run in runs if not run.answers or not (is_sampled(run.answers[0]) or is_task(run.answers[0]))]


def _all(runs: Iterable[ProbeRun], wanted: Callable[[Answer], bool]) -> tuple[Answer, ...]:
    return tuple(answer for run in runs for answer in run.answers if wanted(answer))


def _beside_baseline(asked: Asked, run: ProbeRun) -> ProbeAnswers:
    """The answers with those that the baseline gave at the same number of users, from two of its deployments."""
    before = [
        old.answers for deployment in asked.baseline_probes for old in greedy_of(deployment) if old.users == run.users
    ]
    return ProbeAnswers(run.answers, before[0] if before else (), before[1] if len(before) > 1 else None, run.users)


class Gate:
    """The verification room behind its port (domain.ports.Verifier)."""

    def before(self, asked: Asked, evidence: Evidence, seen: Seen, answers: tuple[ProbeRun, ...]) -> Verification:
        probes = tuple(_beside_baseline(asked, run) for run in greedy_of(answers))
        observed = Observed(evidence, seen, sampled=_all(answers, is_sampled), tasks=_all(answers, is_task))
        return before_measuring(asked, observed, probes)

    def after(self, asked: Asked, evidence: Evidence, seen: Seen, cells: Mapping[str, MeasuredCell]) -> Verification:
        return after_measuring(asked, Observed(evidence, seen), cells)

    def stopped(self, asked: Asked, gpu_before: int, gpu_after: int) -> Verification:
        return after_stopping(asked, Left(gpu_before, gpu_after))

    def state(self, verification: Verification) -> tuple[TrialState, str]:
        return state_of(verification)
