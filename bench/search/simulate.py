"""Campaigns on a known surface: a strategy proposes, the surface answers with noise, until the strategy stops."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean

import numpy as np

from bench.search.surfaces import Surface, Truth
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Capacity, Counters, Deployment, Hardware, Seen, Service
from spectune.domain.estimate import Estimate, Ratio
from spectune.domain.events import (
    CampaignOpened,
    Decided,
    Deployed,
    Event,
    Measured,
    Provenance,
    TrialEnded,
    TrialStarted,
)
from spectune.domain.forecast import Forecaster
from spectune.domain.history import History
from spectune.domain.measurement import Acceptance, Measurement
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Proposal, Strategy
from spectune.domain.trial import Purpose, Trial, TrialState
from spectune.domain.verdict import Decision, Verdict
from spectune.domain.workload import Cell, WorkloadInfo
from spectune.search.bracket import scores

WINDOW_S = 30.0
TRIAL_S = 120.0
_CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One campaign: regret of whatever looked best after 0, 1, 2, ... launches beyond the baseline, as a share of the
    true best; the last value holds for all later launches."""

    regrets: tuple[float, ...]

    def after(self, launches: int) -> float:
        return self.regrets[min(launches, len(self.regrets) - 1)]

    def launches_to(self, within: float) -> int | None:
        """Launches until what looks best is really within so much of the best; None where that never happened."""
        return next((n for n, regret in enumerate(self.regrets) if regret <= within), None)


def opened(surface: Surface) -> History:
    service = Service("llama.cpp", "/server", "/model", {}, {}, "127.0.0.1", 1, "m")
    provenance = Provenance("0", "0", Hardware("h", "cpu", 2, 1), WorkloadInfo("w", "0", 1, {}), simulated="surface")
    return History(CampaignOpened(0.0, surface.spec, service, surface.baseline, provenance))


Taken = Callable[[Surface, History], str]
"""Id of the candidate that a strategy would take now."""


def judged_best(surface: Surface, history: History) -> str:
    """The candidate with the highest score judged so far, the baseline's being 1."""
    standing = scores(history)
    return max(standing, key=lambda name: standing[name])


def run(
    surface: Surface,
    strategy: Strategy,
    noise: float,
    rng: np.random.Generator,
    taken: Taken = judged_best,
    most: int = 60,
) -> Outcome:
    """Runs a strategy to its end.

    Args:
        noise: standard deviation of a trial's log speed in a cell, half of its variance shared by the trial's cells.
        taken: how the strategy names its best.
        most: a bound on launches, for strategies that never stop.
    """
    history = opened(surface)
    regrets: list[float] = []
    for _ in range(most):
        step = strategy.propose(surface.spec, history)
        if not isinstance(step, Proposal) or step.purpose is Purpose.CONFIRM:
            break
        history = with_trial(surface, history, step, noise, rng)
        regret = 1 - math.exp(surface.score(taken(surface, history)) - surface.best)
        if step.purpose is Purpose.BASELINE:
            regrets = [regret]
        else:
            regrets.append(regret)
    return Outcome(tuple(regrets))


def pooled_best(forecaster: Forecaster) -> Taken:
    """The measured candidate with the highest forecast, which pools all trials: whom `Guided` would confirm, but that
    its rule for ties is left out, as it is for all strategies."""

    def taken(surface: Surface, history: History) -> str:
        made = forecaster.forecast(surface.spec, history, history.candidates.values())
        tried = {trial.candidate.id for trial in history.finished}
        gains = {name: one.gain.value for name, one in made.items() if one.gain is not None and name in tried}
        return max(gains, key=lambda name: gains[name]) if gains else judged_best(surface, history)

    return taken


def with_trial(surface: Surface, history: History, step: Proposal, noise: float, rng: np.random.Generator) -> History:
    """The history with one more trial, measured and decided."""
    for event in events(surface, history, step, noise, rng):
        history = history.then(event)
    return history.then(Decided(history.spent_s, max(history.trials), decide(surface, history, noise)))


def events(surface: Surface, history: History, step: Proposal, noise: float, rng: np.random.Generator) -> list[Event]:
    """One trial as the ledger would hold it, undecided."""
    number, at = len(history.trials) + 1, TRIAL_S * len(history.trials)
    name = step.candidate.id
    capacity = Capacity(max_running=surface.max_running.get(name))
    deployment = Deployment((), {}, "", 1, at, 1.0, 0.0, Seen(capacity=capacity))
    shared = rng.normal(0, noise / math.sqrt(2))
    found: list[Event] = [
        TrialStarted(at, number, 1, step.candidate, step.purpose, step.reason),
        Deployed(at, number, deployment),
    ]
    for cell in surface.spec.cells:
        measurement = _measure(surface, step.candidate, cell, shared, noise / math.sqrt(2), rng)
        found.append(Measured(at, number, replace(measurement, started_unix=at), ()))
    found.append(TrialEnded(at + TRIAL_S, number, TrialState.VALID, ""))
    return found


def _measure(
    surface: Surface, candidate: Candidate, cell: Cell, shared: float, noise: float, rng: np.random.Generator
) -> Measurement:
    truth = surface.truth[candidate.id][cell.key]
    off = math.exp(shared + rng.normal(0, noise))
    spread = math.exp(_Z * noise)
    metrics = {
        name: Estimate(value * off, value * off / spread, value * off * spread, 20, _CONFIDENCE)
        for name, value in ((MetricName.PER_USER_SPEED, truth.per_user), (MetricName.AGGREGATE_SPEED, truth.aggregate))
    }
    tokens = min(40_000, int(truth.aggregate * WINDOW_S))
    acceptance, after = _count(surface, truth, tokens, rng)
    return Measurement(
        cell, 0.0, WINDOW_S, metrics, {}, {}, cell.level.value, acceptance, {}, Counters(0, 0, 0, 0, 0, 0), after
    )


def _count(
    surface: Surface, truth: Truth, tokens: int, rng: np.random.Generator
) -> tuple[Acceptance | None, Counters | None]:
    """Counts of a window of so many output tokens."""
    if not truth.shares:
        return None, Counters(tokens, 0, 0, 0, 0, 0)
    steps = max(1, round(tokens / (1 + truth.drafting * sum(truth.shares))))
    drafts = max(1, int(rng.binomial(steps, truth.drafting)))
    reached, positions, before = drafts, [], 1.0
    for share in truth.shares:
        reached = int(rng.binomial(reached, min(1.0, share / before if before > 0 else 0.0)))
        positions.append(reached)
        before = share
    accepted, drafted = sum(positions), drafts * len(positions)
    shares = tuple(count / drafts for count in positions) if surface.by_position else ()
    after = Counters(steps + accepted, 0, 0, drafts, drafted, accepted)
    return Acceptance(drafts, drafted, accepted, shares), after


def decide(surface: Surface, history: History, noise: float) -> Verdict:
    """The last trial against the incumbent, as a judge who knows the noise would decide."""
    trial = history.trials[max(history.trials)]
    before = replace(history, trials={n: t for n, t in history.trials.items() if n < trial.number})
    reference = before.incumbent
    others = [_score(surface, t) for t in before.finished if t.candidate.id == reference.id]
    if not others:
        return Verdict(Decision.INCONCLUSIVE, "first", reference.id)
    earlier = before.of_candidate(trial.candidate.id) if trial.candidate.id != reference.id else ()
    own = [_score(surface, t) for t in (*earlier, trial)]
    log = fmean(own) - fmean(others)
    weights = np.array([surface.spec.weight(cell) for cell in surface.spec.cells])
    weights = weights / weights.sum()
    one = noise**2 / 2 * (1 + float((weights**2).sum()))
    reach = _Z * math.sqrt(one * (1 / len(own) + 1 / len(others)))
    ratio = Ratio(math.exp(log), math.exp(log - reach), math.exp(log + reach), len(others), _CONFIDENCE)
    return Verdict(_decision(surface, trial, ratio), ratio.percent, reference.id, ratio)


def _decision(surface: Surface, trial: Trial, ratio: Ratio) -> Decision:
    goal = surface.spec.objective
    if trial.purpose is not Purpose.EXPLORE:
        return Decision.TIE if ratio.low < 1 < ratio.high else Decision.INCONCLUSIVE
    if ratio.low > 1 and ratio.value >= 1 + goal.min_gain:
        return Decision.KEEP
    if ratio.high < 1:
        return Decision.REVERT
    if ratio.low > 1 - goal.min_gain and ratio.high < 1 + goal.min_gain:
        return Decision.TIE
    return Decision.INCONCLUSIVE


def _score(surface: Surface, trial: Trial) -> float:
    name: MetricName = surface.spec.objective.maximise
    weights: Mapping[str, float] = {cell.key: surface.spec.weight(cell) for cell in surface.spec.cells}
    logs = {key: math.log(cell.measurement.metrics[name].value) for key, cell in trial.cells.items()}
    return sum(weight * logs[key] for key, weight in weights.items()) / sum(weights.values())
