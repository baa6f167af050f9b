"""The guided search played over the measured depths, as if it had asked for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from bench.full_size.evidence import SHARES, Evidence, series
from bench.full_size.forecasts import usable
from spectune.domain.candidate import Method
from spectune.domain.history import History
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import ObjectiveSpec, SpeculationSpace
from spectune.domain.trial import Purpose, Trial
from spectune.judge.paired import PairedJudge
from spectune.predict.speed import SpeedForecaster
from spectune.search.guided import Guided

GOALS: Mapping[str, ObjectiveSpec] = {
    "one user": ObjectiveSpec(MetricName.PER_USER_SPEED, weights={1: 1.0}),
    "tok/s of all at 16 users": ObjectiveSpec(MetricName.AGGREGATE_SPEED, weights={16: 1.0}),
    "per-user speed, all levels alike": ObjectiveSpec(MetricName.PER_USER_SPEED),
}


def walk(evidence: Evidence) -> Iterator[str]:
    """For each goal the launches beyond the baselines, in order, and why it ended."""
    for name, goal in GOALS.items():
        steps, end = _played(evidence.history, goal)
        yield f"- **{name}**: " + "; then ".join(f"k={depth} ({why})" for depth, why in steps) + f". Then: {end}"


def _played(history: History, goal: ObjectiveSpec) -> tuple[list[tuple[int, str]], str]:
    found = series(history, SHARES[0])
    depths = tuple(depth for depth in found if depth)
    spec = history.opened.spec
    spec = replace(
        spec,
        search=replace(spec.search, candidates=(), speculation=(SpeculationSpace(Method.MTP, depths=depths),)),
        objective=goal,
        budget=replace(spec.budget, minutes=1e6, trials=100),
    )
    known = replace(history, opened=replace(history.opened, spec=spec), trials={}, conclusion=None)
    waiting = {depth: list(trials) for depth, trials in found.items()}
    guided, judge = Guided(SpeedForecaster()), PairedJudge()
    steps: list[tuple[int, str]] = []
    while True:
        step = guided.propose(spec, known)
        if isinstance(step, Stop):
            return steps, step.reason
        if step.purpose is Purpose.CONFIRM:
            return steps, f"confirm {step.candidate.label}"
        depth = step.candidate.speculation.depth
        if not waiting[depth]:
            return steps, f"it would measure {step.candidate.label} once more"
        if depth:
            steps.append((depth, step.reason))
        trial = _as_asked(waiting[depth].pop(0), step, len(known.trials) + 1)
        known = replace(known, trials={**known.trials, trial.number: trial})
        decided = replace(trial, verdict=judge.decide(spec, known, trial))
        known = replace(known, trials={**known.trials, trial.number: decided})


def _as_asked(trial: Trial, step: Proposal, number: int) -> Trial:
    return replace(usable(trial), number=number, candidate=step.candidate, purpose=step.purpose, reason=step.reason)
