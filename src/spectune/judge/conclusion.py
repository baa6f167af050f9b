"""The answer of a campaign."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from spectune.domain.estimate import Ratio
from spectune.domain.finding import Status
from spectune.domain.history import History
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Purpose, Trial, TrialState
from spectune.domain.verdict import Conclusion
from spectune.judge.best import best_by_slice
from spectune.judge.comparison import Comparer, Comparison
from spectune.judge.constraints import Constraint, Constraints, broken, in_words, unproven
from spectune.judge.fairness import SOUNDLY, unfair, unsound
from spectune.judge.trial_verdict import gains, is_tie, missing_cells

KNOWN = 4.0
"""Ends of an interval that are as many times apart, half as fast to twice as fast, tell nothing."""


def conclude_campaign(spec: CampaignSpec, history: History) -> Conclusion:
    """See `PairedJudge.conclude`."""
    known = Comparer.of(spec, history.finished)
    baseline = history.baseline.id
    noise = known.noise.tau if known.noise.repeats else None
    if not known.has(baseline):
        return Conclusion(None, False, "the baseline has no usable measurement, so there is nothing to compare with")
    if not any(trial.purpose is Purpose.EXPLORE for trial in history.finished) and not spec.search.is_empty:
        told = "the budget ended before anything was tried; give budget.minutes or budget.trials more"
        return Conclusion(None, False, told, noise=noise)
    tried = [identity for identity in history.candidates if identity != baseline]
    case = _Case(spec, history, known, Constraints(spec, history.finished, baseline))
    sound = [identity for identity in tried if known.has(identity) and not case.unfit(identity)]
    answer = _answer(case, sound)
    best = best_by_slice(known, baseline, sound, spec.objective.confidence)
    return replace(answer, best=best, noise=noise)


@dataclass(frozen=True, slots=True)
class _Case:
    spec: CampaignSpec
    history: History
    known: Comparer
    constraints: Constraints

    def unfit(self, identity: str) -> str:
        """Why a candidate can't be named as best anywhere; "" where it can."""
        invalid = (t for t in _trials(self.history, identity) if t.state is TrialState.INVALID)
        if (trial := next(invalid, None)) is not None:
            return f"trial {trial.number} is invalid ({trial.state_reason or 'no reason recorded'})"
        return broken(self.constraints.of(identity))


def _answer(case: _Case, sound: Sequence[str]) -> Conclusion:
    history = case.history
    arms = [trial for trial in history.finished if trial.purpose is Purpose.CONFIRM]
    confirming = list(dict.fromkeys(t.candidate.id for t in arms if t.candidate.id != history.baseline.id))
    if not confirming:
        return _unconfirmed(case, sound)
    results = [_confirmation(case, identity, len(confirming)) for identity in confirming]
    if winner := _simplest_of_the_best(case, [result for result in results if result.won]):
        notes = {"constraints": words} if (words := in_words(winner.constraints)) else {}
        return Conclusion(winner.candidate, True, winner.reason, winner.overall, notes=notes)
    closest = max(results, key=_gained)
    return Conclusion(history.baseline.id if closest.settled else None, False, closest.reason)


@dataclass(frozen=True, slots=True)
class _Confirmation:
    """settled: whether not winning is an answer (the baseline stays), rather than none."""

    candidate: str
    won: bool
    reason: str
    overall: Ratio | None = None
    settled: bool = True
    constraints: tuple[Constraint, ...] = ()


def _gained(result: _Confirmation) -> float:
    return result.overall.value if result.overall else 0.0


def _simplest_of_the_best(case: _Case, won: Sequence[_Confirmation]) -> _Confirmation | None:
    """Of those within the minimum gain of the best the simplest, then the one with more KV room, then the faster."""
    if not won:
        return None
    best = max(map(_gained, won))
    close = [result for result in won if _gained(result) >= best / (1 + case.spec.objective.min_gain)]

    def rank(result: _Confirmation) -> tuple[tuple[int, int], int, float]:
        rooms = [t.deployment.seen.capacity.kv_tokens for t in _trials(case.history, result.candidate) if t.deployment]
        room = max((tokens for tokens in rooms if tokens is not None), default=0)
        return case.history.candidates[result.candidate].simplicity(), -room, -_gained(result)

    return min(close, key=rank)


def _confirmation(case: _Case, identity: str, many: int) -> _Confirmation:
    """What confirmation says of one of `many` candidates that came so far; they share the error (Bonferroni)."""
    spec, history, known = case.spec, case.history, case.known
    label = history.candidates[identity].label
    if unfit := case.unfit(identity):
        return _Confirmation(identity, False, f"{label} can't win: {unfit}; the baseline stays")
    comparison = known.compare_in(identity, history.baseline.id, lambda trial: trial.purpose is Purpose.CONFIRM)
    rows = [trial.candidate.id for trial in known.table.trials if trial.purpose is Purpose.CONFIRM]
    pairs = min(rows.count(identity), rows.count(history.baseline.id))
    confidence = 1 - (1 - spec.objective.confidence) / many
    overall = comparison.ratio(confidence) if comparison is not None else None
    if comparison is None or overall is None or pairs < min(2, spec.budget.confirm_pairs):
        reason = f"{label} was not confirmed: {pairs} of {spec.budget.confirm_pairs} pairs of trials could be used"
        return _Confirmation(identity, False, reason, settled=False)
    if missing := missing_cells(comparison):
        return _Confirmation(identity, False, f"{label} was not confirmed: {missing}", settled=False)
    counted = f"confirmed by {pairs} interleaved pair{'s' * (pairs != 1)}"
    if gains(comparison, confidence, spec, pairs):
        found = (*case.constraints.of(identity), *case.constraints.slowdowns(comparison))
        doubtful = broken(found) or "; ".join([*_unproven(history, identity), *unproven(found)])
        if not doubtful and (words := "; ".join(unfair(history, identity))):
            reason = f"no decision: {label} looked faster by {overall.percent}, {counted}, but {words}"
            return _Confirmation(identity, False, reason, overall, settled=False)
        if doubtful:
            reason = f"{label} is faster by {overall.percent}, {counted}, but can't win: {doubtful}; the baseline stays"
            return _Confirmation(identity, False, reason, overall)
        reason = f"{label} is faster by {overall.percent}, {counted}"
        return _Confirmation(identity, True, reason, overall, constraints=found)
    return _Confirmation(identity, False, _not_won(spec, label, comparison, overall, pairs, confidence), overall)


def _not_won(
    spec: CampaignSpec, label: str, comparison: Comparison, overall: Ratio, pairs: int, confidence: float
) -> str:
    goal = spec.objective
    if overall.high < 1 or is_tie(comparison, confidence, goal.min_gain) or overall.high < 1 + goal.min_gain:
        return f"nothing beats what you have: {label} was best and gains {overall.percent} after {pairs} pairs"
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


def _unconfirmed(case: _Case, sound: Sequence[str]) -> Conclusion:
    """Explorations alone: they can tell that nothing is better, never that something is, since the best of many
    lucky draws is expected to look better than it is."""
    spec, history, known = case.spec, case.history, case.known
    goal, baseline = spec.objective, history.baseline.id
    looks = [(identity, found) for identity in sound if (found := known.compare(identity, baseline)) is not None]
    rated = [
        (ratio, identity, found)
        for identity, found in looks
        if (ratio := found.ratio(goal.confidence)) is not None and not found.contrast.empty_cells
    ]
    if not rated:
        return Conclusion(baseline, False, "no other candidate could be measured; the baseline stays")
    if doubted := _nothing_told(history, [identity for _, identity, _ in rated]):
        return Conclusion(None, False, f"no decision: {doubted}; longer measurements would tell more")
    best, identity, comparison = max(rated, key=lambda row: row[0].value)
    label = history.candidates[identity].label
    if not best.high < KNOWN * best.low:
        reason = f"no decision: the gain of {label} is not known at all ({best.percent})"
        return Conclusion(None, False, f"{reason}; longer measurements would tell more")
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


def _nothing_told(history: History, explored: Sequence[str]) -> str:
    """Why explorations say nothing, not even that the baseline may stay: no trial of it, or of any candidate, was
    measured soundly. "" where they do."""
    for who, side in (("the baseline", [history.baseline.id]), ("a candidate", explored)):
        trials = [trial for identity in side for trial in history.of_candidate(identity) if trial.valid and trial.cells]
        doubts = [doubt for trial in trials if (doubt := unsound(trial)) is not None]
        if doubts and len(doubts) == len(trials):
            return f"{who} was never measured soundly ({doubts[-1].seen})"
    return ""


def _unproven(history: History, identity: str) -> Iterator[str]:
    """Reasons why a candidate must not win although it is faster, each once.

    A check that the service as it is never passes either (simulated output) tells nothing of the candidate. It still
    stands in the way of promotion. The check on the measurement itself is another matter: see `unfair`.
    """
    words: dict[str, None] = {}
    common = _never_passed(history)
    for trial in (trial for trial in _trials(history, identity) if trial.valid):
        for finding in trial.verification.findings:
            if finding.check in common or finding.check == SOUNDLY:
                continue
            if finding.status is Status.UNKNOWN:
                words[f"check {finding.check} could not tell (asked {finding.asked}, seen {finding.seen})"] = None
            elif finding.status is Status.VIOLATED:
                words[f"check {finding.check} failed (asked {finding.asked}, seen {finding.seen})"] = None
        if not trial.verification.findings:
            words[f"trial {trial.number} has no recorded checks"] = None
        if trial.state is TrialState.UNKNOWN and trial.verification.proven:
            words[f"trial {trial.number} is unknown ({trial.state_reason or 'no reason recorded'})"] = None
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
