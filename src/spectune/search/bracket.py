"""What every strategy does around exploring: the baseline twice before it, the confirmation of a winner after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spectune.domain.candidate import Candidate
from spectune.domain.history import History
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Purpose, Trial
from spectune.domain.verdict import Decision

BASELINES = 2
"""Baseline against itself comes first: without the noise floor nothing can be called faster."""

GOING_ON = 2
"""Times the planned pairs of a confirmation that are made at most, while they leave a gain that was seen undecided."""


def opening(history: History) -> Proposal | Stop | None:
    """The baseline until it was measured twice; a stop where it does not pass its checks; None once that is done."""
    baselines = [trial for trial in history.finished if trial.purpose is Purpose.BASELINE]
    if any(not trial.valid for trial in baselines):
        return Stop("the service as it is does not pass its checks")
    if len(baselines) >= BASELINES:
        return None
    again = "the service again: how much does it differ from itself?"
    return Proposal(history.baseline, Purpose.BASELINE, again if baselines else "the service as it is")


def confirming(history: History) -> bool:
    """Whether the confirmation has begun; nothing is explored from then on."""
    return any(trial.purpose is Purpose.CONFIRM for trial in history.finished)


def scores(history: History, pooled: Mapping[str, float] | None = None) -> dict[str, float]:
    """Candidate id -> estimated speed against the baseline, chained over the incumbents that trials were compared with.
    Candidates without a comparison are absent.

    Args:
        pooled: estimates that rest on more than a candidate's own trials; they take the place of the judge's.
    """
    known = pooled or {}
    found = {history.baseline.id: 1.0, **known}
    for trial in history.finished:
        verdict, name = trial.verdict, trial.candidate.id
        if trial.purpose is not Purpose.EXPLORE or not trial.valid or name in known:
            continue
        if verdict is not None and verdict.overall is not None:
            found[name] = found.get(verdict.reference, 1.0) * verdict.overall.value
    return found


def standing(history: History) -> dict[str, float]:
    """Scores of those that may still win."""
    reverted = {
        trial.candidate.id
        for trial in history.finished
        if trial.purpose is Purpose.EXPLORE and (trial.verdict is None or trial.verdict.decision is Decision.REVERT)
    }
    return {name: score for name, score in scores(history).items() if name not in reverted}


def finalist(spec: CampaignSpec, history: History, standing_of: Mapping[str, float] | None = None) -> Candidate | None:
    """Who is to be confirmed: the simplest of those that look as good as the best one, less the minimum gain, where
    that one looks better than the baseline by the minimum gain, proven or not.

    Args:
        standing_of: estimated speed against the baseline of everyone who may win; the judge's scores of those who were
            not reverted where it is left out.

    Returns:
        None when nobody looks better.
    """
    known = standing(history) if standing_of is None else standing_of
    best, gain = max(known.values(), default=0.0), 1 + spec.objective.min_gain
    if best < gain:
        return None
    close = [history.candidates[name] for name, score in known.items() if score >= best / gain and score > 1]
    return min(close, key=lambda candidate: (candidate.simplicity(), -known[candidate.id]), default=None)


def confirmation(spec: CampaignSpec, history: History, winner: Candidate | None = None) -> Proposal | None:
    """The next pair side by side, or the next arm of B A A B B A A B ..., so that a steady drift cancels out; None once
    all pairs are made, one of them broke, or nobody is to be confirmed. The winner's arm ends every second pair: its
    verdict knows all of an even number of them.

    Where two servers did not get on beside each other, the pairs are made one after the other instead. Where all pairs
    leave a gain that was seen undecided, what is left of the budget goes into as many pairs again. That is settled
    once, after the planned pairs, so that looking often does not make luck look like a gain.

    Args:
        winner: whom the strategy wants confirmed; else `finalist` says. Whoever has begun to be confirmed goes on.
    """
    arms = [trial for trial in history.finished if trial.purpose is Purpose.CONFIRM]
    begun = next((trial.candidate for trial in arms if trial.candidate.id != history.baseline.id), None)
    winner = begun or winner or finalist(spec, history)
    if winner is None:
        return None
    done = [trial for trial in arms if trial.valid or trial.beside is None]
    pairs = spec.budget.confirm_pairs
    if len(done) >= 2 * pairs and _is_open(done[: 2 * pairs], winner):
        pairs = GOING_ON * pairs if len(done) % 2 or _is_pair_affordable(spec, history) else pairs
    if len(done) >= 2 * pairs or any(not trial.valid for trial in done):
        return None
    if len(history.finished) >= spec.budget.trials:
        return None
    pair = f"confirming, pair {len(done) // 2 + 1} of {pairs}"
    if spec.budget.side_by_side and len(done) == len(arms) and len(done) % 2 == 0:
        return Proposal(history.baseline, Purpose.CONFIRM, f"{pair}, side by side", beside=winner)
    begun_with_baseline = bool(done) and done[0].candidate.id == history.baseline.id  # by an older spectune
    baseline_turn = (len(done) % 4 in {1, 2}) != begun_with_baseline
    arm = "baseline" if baseline_turn else "winner"
    return Proposal(history.baseline if baseline_turn else winner, Purpose.CONFIRM, f"{pair}: {arm}")


def _is_open(planned: Sequence[Trial], winner: Candidate) -> bool:
    """Whether the pairs that were planned left it undecided whether what was seen is a gain."""
    verdicts = [trial.verdict for trial in planned if trial.candidate.id == winner.id]
    last = verdicts[-1] if verdicts else None
    return (
        last is not None
        and last.decision is Decision.INCONCLUSIVE
        and last.overall is not None
        and last.overall.value > 1
    )


def _is_pair_affordable(spec: CampaignSpec, history: History) -> bool:
    """Whether the budget has room for one more pair."""
    trials = len(history.finished)
    seconds = history.spent_s + 2 * history.spent_s / max(1, trials)
    return trials + 2 <= spec.budget.trials and seconds <= spec.budget.minutes * 60
