"""The answer of a campaign."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from spectune.domain.estimate import Ratio
from spectune.domain.finding import Status
from spectune.domain.history import History
from spectune.domain.spec import CampaignSpec, SearchSpec
from spectune.domain.trial import Purpose, Trial, TrialState
from spectune.domain.verdict import Conclusion
from spectune.judge.best import best_by_slice
from spectune.judge.comparison import Comparer, Comparison
from spectune.judge.constraints import capacity_breaches, slowdown_breaches
from spectune.judge.trial_verdict import is_tie, missing_cells


def conclude_campaign(spec: CampaignSpec, history: History) -> Conclusion:
    """See `PairedJudge.conclude`."""
    known = Comparer.of(spec, history.finished)
    baseline = history.baseline.id
    noise = known.noise.tau if known.noise.repeats else None
    if not known.has(baseline):
        return Conclusion(None, False, "the baseline has no usable measurement, so there is nothing to compare with")
    if not any(trial.purpose is Purpose.EXPLORE for trial in history.finished) and spec.search != SearchSpec():
        return Conclusion(None, False, "the budget ended before anything was tried", noise=noise)
    tried = [identity for identity in history.candidates if identity != baseline]
    sound = [identity for identity in tried if known.has(identity) and not _unfit(spec, history, identity)]
    answer = _answer(spec, history, known, sound)
    best = best_by_slice(known, baseline, sound, spec.objective.confidence)
    return replace(answer, best=best, noise=noise)


def _answer(spec: CampaignSpec, history: History, known: Comparer, sound: Sequence[str]) -> Conclusion:
    arms = [trial for trial in history.finished if trial.purpose is Purpose.CONFIRM]
    confirming = list(dict.fromkeys(t.candidate.id for t in arms if t.candidate.id != history.baseline.id))
    if not confirming:
        return _unconfirmed(spec, history, known, sound)
    # Bonferroni, should several candidates have come as far as confirmation.
    confidence = 1 - (1 - spec.objective.confidence) / len(confirming)
    results = [_confirmation(spec, history, known, identity, confidence) for identity in confirming]
    won = [result for result in results if result.won]
    chosen = max(won or results, key=lambda result: result.overall.value if result.overall else 0.0)
    if chosen.won:
        return Conclusion(chosen.candidate, True, chosen.reason, chosen.overall)
    return Conclusion(history.baseline.id if chosen.settled else None, False, chosen.reason)


@dataclass(frozen=True, slots=True)
class _Confirmation:
    """settled: whether not winning is an answer (the baseline stays), rather than none."""

    candidate: str
    won: bool
    reason: str
    overall: Ratio | None = None
    settled: bool = True


def _confirmation(
    spec: CampaignSpec, history: History, known: Comparer, identity: str, confidence: float
) -> _Confirmation:
    label, goal = history.candidates[identity].label, spec.objective
    if unfit := _unfit(spec, history, identity):
        return _Confirmation(identity, False, f"{label} can't win: {unfit}; the baseline stays")
    comparison = known.compare_in(identity, history.baseline.id, lambda trial: trial.purpose is Purpose.CONFIRM)
    rows = [trial.candidate.id for trial in known.table.trials if trial.purpose is Purpose.CONFIRM]
    pairs = min(rows.count(identity), rows.count(history.baseline.id))
    overall = comparison.ratio(confidence) if comparison is not None else None
    if comparison is None or overall is None or pairs < min(2, spec.budget.confirm_pairs):
        reason = f"{label} was not confirmed: {pairs} of {spec.budget.confirm_pairs} pairs of trials could be used"
        return _Confirmation(identity, False, reason, settled=False)
    if missing := missing_cells(comparison):
        return _Confirmation(identity, False, f"{label} was not confirmed: {missing}", settled=False)
    counted = f"confirmed by {pairs} interleaved pair{'s' * (pairs != 1)}"
    if overall.low > 1 and overall.value >= 1 + goal.min_gain:
        slow = "; ".join(breach.words for breach in slowdown_breaches(spec, comparison))
        doubtful = slow or "; ".join(_unproven(spec, history, identity))
        if doubtful:
            reason = f"{label} is faster by {overall.percent}, {counted}, but can't win: {doubtful}; the baseline stays"
            return _Confirmation(identity, False, reason, overall)
        return _Confirmation(identity, True, f"{label} is faster by {overall.percent}, {counted}", overall)
    return _Confirmation(identity, False, _not_won(spec, label, comparison, overall, pairs, confidence), overall)


def _not_won(
    spec: CampaignSpec, label: str, comparison: Comparison, overall: Ratio, pairs: int, confidence: float
) -> str:
    goal = spec.objective
    if overall.high < 1 or is_tie(comparison, confidence, goal.min_gain) or overall.high < 1 + goal.min_gain:
        return f"nothing beats what you have: {label} was best and gains {overall.percent} after {pairs} pairs"
    if overall.low > 1:
        return (
            f"nothing provably beats what you have by {100 * goal.min_gain:g} %: "
            f"{label} gains {overall.percent} after {pairs} pairs"
        )
    return f"inconclusive: {_undecided(spec, label, comparison, overall, pairs, confidence)}"


def _undecided(
    spec: CampaignSpec, label: str, comparison: Comparison, overall: Ratio, pairs: int, confidence: float
) -> str:
    more = comparison.more_pairs(confidence, spec.objective.min_gain, pairs)
    noise = f"{100 * comparison.noise.tau:.1f} %"
    advice = (
        f"about {more} more pair{'s' * (more != 1)} would tell"
        if more
        else "more prompts or a quieter machine would be needed"
    )
    return f"gain of {label} {overall.percent} can't be told from noise of {noise}; {advice}"


def _unconfirmed(spec: CampaignSpec, history: History, known: Comparer, sound: Sequence[str]) -> Conclusion:
    """Explorations alone: they can tell that nothing is better, never that something is, since the best of many
    lucky draws is expected to look better than it is."""
    goal, baseline = spec.objective, history.baseline.id
    looks = [(identity, found) for identity in sound if (found := known.compare(identity, baseline)) is not None]
    rated = [
        (ratio, identity, found)
        for identity, found in looks
        if (ratio := found.ratio(goal.confidence)) is not None and not found.contrast.empty_cells
    ]
    if not rated:
        return Conclusion(baseline, False, "no other candidate could be measured; the baseline stays")
    best, identity, comparison = max(rated, key=lambda row: row[0].value)
    label = history.candidates[identity].label
    if best.low > 1 and best.value >= 1 + goal.min_gain:
        why = "no confirmation was asked for" if spec.budget.confirm_pairs == 0 else "no confirmation was made"
        reason = (
            f"no decision: {label} looked faster by {best.percent}, but {why}, and the best of "
            f"{len(rated)} explored looks better than it is"
        )
        return Conclusion(None, False, reason)
    family = 1 - (1 - goal.confidence) / len(rated)
    adjusted = [found.ratio(family) for _, _, found in rated]
    if all(ratio is not None and ratio.high < 1 + goal.min_gain for ratio in adjusted):
        return Conclusion(baseline, False, f"nothing beats what you have: {label} came closest with {best.percent}")
    if best.value < 1 + goal.min_gain:
        reason = f"nothing looked {100 * goal.min_gain:g} % faster than what you have: {label} came closest with"
        return Conclusion(baseline, False, f"{reason} {best.percent}, and was not worth confirming")
    words = _undecided(spec, label, comparison, best, 0, goal.confidence)
    return Conclusion(baseline, False, f"nothing provably beats what you have: {words}")


def _unfit(spec: CampaignSpec, history: History, identity: str) -> str:
    """Why a candidate can't be named as best anywhere; "" where it can."""
    for trial in _trials(history, identity):
        if trial.state is TrialState.INVALID:
            return f"trial {trial.number} is invalid ({trial.state_reason or 'no reason recorded'})"
        if trial.valid:
            for breach in capacity_breaches(spec, trial):
                if breach.status is Status.VIOLATED:
                    return breach.words
    return ""


def _unproven(spec: CampaignSpec, history: History, identity: str) -> Iterator[str]:
    """Reasons why a candidate must not win although it is faster, each once.

    A check that the service as it is never passes either (simulated output) tells nothing of the candidate. It still
    stands in the way of promotion.
    """
    words: dict[str, None] = {}
    common = _never_passed(history)
    for trial in (trial for trial in _trials(history, identity) if trial.valid):
        for finding in trial.verification.findings:
            if finding.check in common:
                continue
            if finding.status is Status.UNKNOWN:
                words[f"check {finding.check} could not tell (asked {finding.asked}, seen {finding.seen})"] = None
            elif finding.status is Status.VIOLATED:
                words[f"check {finding.check} failed (asked {finding.asked}, seen {finding.seen})"] = None
        if not trial.verification.findings:
            words[f"trial {trial.number} has no recorded checks"] = None
        if trial.state is TrialState.UNKNOWN and trial.verification.proven:
            words[f"trial {trial.number} is unknown ({trial.state_reason or 'no reason recorded'})"] = None
        words.update(
            (breach.words, None) for breach in capacity_breaches(spec, trial) if breach.status is Status.UNKNOWN
        )
    yield from words


def _never_passed(history: History) -> frozenset[str]:
    """Checks that every comparable trial of the baseline fails or leaves open."""
    open_ones = [
        {finding.check for finding in trial.verification.findings if finding.status is not Status.OK}
        for trial in history.of_candidate(history.baseline.id)
    ]
    return frozenset(set.intersection(*open_ones)) if open_ones else frozenset()


def _trials(history: History, identity: str) -> Iterator[Trial]:
    return (trial for trial in history.finished if trial.candidate.id == identity)
