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
from spectune.search.bracket import confirmation, confirming, finalist, opening, scores, standing
from spectune.search.scheduled import scheduled
from spectune.search.spending import affordable, anchor

ALWAYS_TRIED = 2
"""Depths of a method that are tried whatever the first one gave: a first one that loses may hide one that wins."""


class Staged:
    """See the module. Depends on spec and history alone, so that a resumed campaign goes on as it would have."""

    def propose(self, spec: CampaignSpec, history: History) -> Proposal | Stop:
        if (first := opening(history)) is not None:
            return first
        explore = next(_explorations(spec, history), None) or scheduled(spec, history)
        if explore is not None and not confirming(history) and affordable(spec, history, finalist(spec, history)):
            return anchor(history) or explore
        return confirmation(spec, history) or _stop(explore)


def _stop(left: Proposal | None) -> Stop:
    if left is None:
        return Stop("everything worth trying was tried")
    return Stop(f"the budget ended before {left.candidate.label} could be tried")


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
    known = {
        name: score
        for name, score in standing(history).items()
        if history.candidates[name].speculation == history.baseline.speculation
    }
    best = max(known, key=lambda name: known[name])
    return history.candidates[best] if known[best] >= 1 + spec.objective.min_gain else history.baseline


def _deeper(
    space: SpeculationSpace, base: Candidate, history: History, tried: Mapping[str, Trial]
) -> Iterator[Proposal]:
    """The next depth of one method, unless it has stopped paying.

    The point estimate steers: a single exploration seldom proves a gain (see docs/statistics.md), and a step too many
    costs one launch, while a step too few costs the winner.
    """
    known = scores(history)
    best, unpaid = known[base.id], 0
    for index, depth in enumerate(sorted(space.depths)):
        candidate = at_depth(base, space, depth)
        trial = tried.get(candidate.id)
        if trial is None:
            step = "first depth" if index == 0 else "one step deeper"
            yield Proposal(candidate, Purpose.EXPLORE, f"{space.method.value}: {step}, k={depth}")
            return
        if trial.state in {TrialState.INVALID, TrialState.PRUNED}:
            return
        score = known.get(candidate.id, 0.0)
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
