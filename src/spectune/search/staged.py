"""The staged search: baseline twice, other settings one at a time, each speculation method one step deeper while it
pays, then the winner against the baseline, interleaved.

Other settings come first: a wrong number of threads, say, makes drafting look good or bad for reasons of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.history import History
from spectune.domain.knobs import KnobValue
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import CampaignSpec, CandidateSpec, SpeculationSpace
from spectune.domain.trial import Purpose, Trial, TrialState
from spectune.domain.verdict import Decision

BASELINES = 2
"""Baseline against itself comes first: without the noise floor nothing can be called faster."""

ALWAYS_TRIED = 2
"""Depths of a method that are tried whatever the first one gave: a first one that loses may hide one that wins."""

ANCHOR_EVERY = 3
"""Explorations between two measurements of the incumbent; machines drift within minutes."""


class Staged:
    """See the module. Depends on spec and history alone, so that a resumed campaign goes on as it would have."""

    def propose(self, spec: CampaignSpec, history: History) -> Proposal | Stop:
        baselines = [trial for trial in history.finished if trial.purpose is Purpose.BASELINE]
        if any(not trial.valid for trial in baselines):
            return Stop("the service as it is does not pass its checks")
        if len(baselines) < BASELINES:
            reason = (
                "the service as it is" if not baselines else "the service again: how much does it differ from itself?"
            )
            return Proposal(history.baseline, Purpose.BASELINE, reason)
        explore = next(_explorations(spec, history), None)
        if explore is not None and not _confirming(history) and _affordable(spec, history):
            return _anchor(history) or explore
        return confirmation(spec, history) or _stop(explore)


def _stop(left: Proposal | None) -> Stop:
    if left is None:
        return Stop("everything worth trying was tried")
    return Stop(f"the budget ended before {left.candidate.label} could be tried")


def _confirming(history: History) -> bool:
    return any(trial.purpose is Purpose.CONFIRM for trial in history.finished)


def _affordable(spec: CampaignSpec, history: History) -> bool:
    """Whether one more exploration leaves enough of the budget for the confirmation; while there is nobody to confirm,
    for one pair of it."""
    pairs = spec.budget.confirm_pairs if finalist(spec, history) else min(1, spec.budget.confirm_pairs)
    trials = history.finished
    per_trial = history.spent_s / len(trials)
    return (
        len(trials) + 1 + 2 * pairs <= spec.budget.trials
        and history.spent_s + per_trial * (1 + 2 * pairs) <= spec.budget.minutes * 60
    )


def _explorations(spec: CampaignSpec, history: History) -> Iterator[Proposal]:
    tried = {trial.candidate.id: trial for trial in history.finished}
    for spelled in spec.search.candidates:
        candidate = spelled_out(history.baseline, spelled)
        if candidate.id not in tried:
            yield Proposal(candidate, Purpose.EXPLORE, "named in the campaign file")
    base = _best_without_drafts(spec, history)
    for name, values in spec.search.knobs.items():
        for value in values:
            candidate = replace(base, knobs={**base.knobs, name: value})
            as_it_is = history.opened.service.args.get(name) == value and name not in history.baseline.knobs
            if not as_it_is and candidate.id not in tried and not _tried_elsewhere(history, base, name, value):
                yield Proposal(candidate, Purpose.EXPLORE, f"{name}={value} on the best so far")
    for space in spec.search.speculation:
        yield from _deeper(space, base, history, tried)


def _best_without_drafts(spec: CampaignSpec, history: History) -> Candidate:
    """The best among the baseline and its variants in other settings, on which methods are tried."""
    standing = {
        name: score
        for name, score in _not_reverted(history).items()
        if history.candidates[name].speculation == history.baseline.speculation
    }
    best = max(standing, key=lambda name: standing[name])
    return history.candidates[best] if standing[best] >= 1 + spec.objective.min_gain else history.baseline


def _deeper(
    space: SpeculationSpace, base: Candidate, history: History, tried: Mapping[str, Trial]
) -> Iterator[Proposal]:
    """The next depth of one method, unless it has stopped paying.

    The point estimate steers: a single exploration seldom proves a gain (see docs/statistics.md), and a step too many
    costs one launch, while a step too few costs the winner.
    """
    standing = scores(history)
    best, unpaid = standing[base.id], 0
    for index, depth in enumerate(sorted(space.depths)):
        candidate = at_depth(base, space, depth)
        trial = tried.get(candidate.id)
        if trial is None:
            step = "first depth" if index == 0 else "one step deeper"
            yield Proposal(candidate, Purpose.EXPLORE, f"{space.method.value}: {step}, k={depth}")
            return
        if trial.state in {TrialState.INVALID, TrialState.PRUNED}:
            return
        score = standing.get(candidate.id, 0.0)
        unpaid = 0 if score > best or _gains_somewhere(trial) else unpaid + 1
        best = max(best, score)
        if unpaid and index + 1 >= ALWAYS_TRIED:
            return


def at_depth(base: Candidate, space: SpeculationSpace, depth: int) -> Candidate:
    """A candidate with one method at one depth in place of its own speculation."""
    if space.method is Method.NONE:
        return replace(base, speculation=Speculation())
    speculation = Speculation(space.method, depth, draft_model=space.draft_model, settings=dict(space.settings))
    return replace(base, speculation=speculation)


def spelled_out(base: Candidate, spelled: CandidateSpec) -> Candidate:
    """A candidate of the campaign file, on the service as it is."""
    speculation = Speculation(spelled.method, spelled.depth, spelled.topk, spelled.draft_model, dict(spelled.settings))
    return Candidate(speculation, {**base.knobs, **spelled.knobs})


def scores(history: History) -> dict[str, float]:
    """Candidate id -> estimated speed against the baseline, chained over the incumbents that trials were compared with.
    Candidates without a comparison are absent."""
    found = {history.baseline.id: 1.0}
    for trial in history.finished:
        verdict = trial.verdict
        if trial.purpose is Purpose.EXPLORE and trial.valid and verdict is not None and verdict.overall is not None:
            found[trial.candidate.id] = found.get(verdict.reference, 1.0) * verdict.overall.value
    return found


def _gains_somewhere(trial: Trial) -> bool:
    """Whether it provably gained in some slice, where a deeper step may gain more."""
    return trial.verdict is not None and any(effect.ratio.low > 1 for effect in trial.verdict.effects)


def _tried_elsewhere(history: History, best: Candidate, name: str, value: KnobValue) -> bool:
    """Whether a setting was already tried on another candidate; it is not tried again on each new best."""
    return any(
        trial.candidate.knobs.get(name) == value and trial.candidate.id != best.id
        for trial in history.finished
        if trial.purpose is Purpose.EXPLORE
    )


def _anchor(history: History) -> Proposal | None:
    """The incumbent again, when it was last measured some explorations ago."""
    incumbent = history.incumbent
    since = 0
    for trial in reversed(history.finished):
        if trial.candidate.id == incumbent.id and trial.valid:
            break
        since += 1
    if since < ANCHOR_EVERY:
        return None
    return Proposal(incumbent, Purpose.ANCHOR, f"the best so far again, {since} trials later: has the machine drifted?")


def finalist(spec: CampaignSpec, history: History) -> Candidate | None:
    """Who is to be confirmed: the simplest of those that look as good as the best one, less the minimum gain, where
    that one looks better than the baseline by the minimum gain, proven or not. Whoever was reverted is out.

    None when nobody looks better.
    """
    standing = _not_reverted(history)
    best, gain = max(standing.values()), 1 + spec.objective.min_gain
    if best < gain:
        return None
    close = [history.candidates[name] for name, score in standing.items() if score >= best / gain and score > 1]
    return min(close, key=lambda candidate: (candidate.simplicity(), -standing[candidate.id]))


def _not_reverted(history: History) -> dict[str, float]:
    """Scores of those that may still win."""
    reverted = {
        trial.candidate.id
        for trial in history.finished
        if trial.purpose is Purpose.EXPLORE and (trial.verdict is None or trial.verdict.decision is Decision.REVERT)
    }
    return {name: score for name, score in scores(history).items() if name not in reverted}


def confirmation(spec: CampaignSpec, history: History) -> Proposal | None:
    """The next pair side by side, or the next arm of A B B A A B B A ..., so that a steady drift cancels out.

    Where two servers did not get on beside each other, the pairs are made one after the other instead.
    """
    winner = finalist(spec, history)
    if winner is None:
        return None
    confirming = [trial for trial in history.finished if trial.purpose is Purpose.CONFIRM]
    done = [trial for trial in confirming if trial.valid or trial.beside is None]
    if len(done) >= 2 * spec.budget.confirm_pairs or any(not trial.valid for trial in done):
        return None
    if len(history.finished) >= spec.budget.trials:
        return None
    pair = f"confirming, pair {len(done) // 2 + 1} of {spec.budget.confirm_pairs}"
    if spec.budget.side_by_side and len(done) == len(confirming) and len(done) % 2 == 0:
        return Proposal(history.baseline, Purpose.CONFIRM, f"{pair}, side by side", beside=winner)
    baseline_turn = len(done) % 4 in {0, 3}
    arm = "baseline" if baseline_turn else "winner"
    return Proposal(history.baseline if baseline_turn else winner, Purpose.CONFIRM, f"{pair}: {arm}")
