"""The verdict on one trial, from what was known when it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectune.domain.candidate import Candidate
from spectune.domain.estimate import Ratio
from spectune.domain.history import History
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Purpose, Trial, TrialState
from spectune.domain.verdict import Decision, Effect, Verdict
from spectune.judge.comparison import Comparer, Comparison, usable
from spectune.judge.constraints import Constraints, broken, unproven
from spectune.judge.fairness import unsound
from spectune.judge.noise import noise_of
from spectune.judge.table import fatal_doubts


def decide_trial(spec: CampaignSpec, history: History, trial: Trial) -> Verdict:
    """See `PairedJudge.decide`."""
    before = replace(history, trials={n: t for n, t in history.trials.items() if n < trial.number})
    repeats = trial.purpose in (Purpose.BASELINE, Purpose.ANCHOR) or trial.candidate.id == history.baseline.id
    reference = _reference(before, trial, repeats)
    if trial.state in (TrialState.INVALID, TrialState.PRUNED):
        return Verdict(Decision.REVERT, _why_unusable(trial), reference.id)
    if not trial.valid:
        return Verdict(Decision.INCONCLUSIVE, "the trial has not ended", reference.id)
    known = Comparer.of(spec, (*before.finished, trial))
    case = _Case(spec, before, trial, reference, known)
    if trial.number not in {row.number for row in known.table.trials}:
        return case.undecided(f"{case.name} has no usable measurement" + _doubts(trial))
    if repeats or reference.id == trial.candidate.id:
        return _decide_repeat(case)
    return _decide_candidate(case)


@dataclass(frozen=True, slots=True)
class _Case:
    spec: CampaignSpec
    before: History
    trial: Trial
    reference: Candidate
    known: Comparer

    @property
    def name(self) -> str:
        return name_of(self.trial.candidate, self.before)

    @property
    def other(self) -> str:
        return name_of(self.reference, self.before)

    def undecided(self, reason: str, overall: Ratio | None = None, effects: tuple[Effect, ...] = ()) -> Verdict:
        return Verdict(Decision.INCONCLUSIVE, reason, self.reference.id, overall, effects)


def name_of(candidate: Candidate, history: History) -> str:
    """How reasons name a candidate."""
    return "the baseline" if candidate.id == history.baseline.id else candidate.label


def is_tie(comparison: Comparison, confidence: float, min_gain: float) -> bool:
    """Whether the overall difference is provably smaller than min_gain: two one-sided tests (Schuirmann 1987), each at
    the confidence; equivalently the interval at 2 x confidence - 1 lies within 1 +- min_gain."""
    ratio = comparison.ratio(2 * confidence - 1)
    return ratio is not None and 1 - min_gain < ratio.low and ratio.high < 1 + min_gain


FIRST_LOOK, LAST_LOOK = 0.20, 0.70
"""Shares of the error that a gain may have at the planned pairs, and after the further ones that follow where it was
left open. With 95 % these are 2.58 and 2.11 standard errors, and both looks together promote 2.0 % of equal candidates
that are always looked at twice, after as many pairs again, and 1.9 % after half as many. (In group sequential tests
the early look is the stricter one: O'Brien and Fleming 1979.)"""


def gains(comparison: Comparison, confidence: float, spec: CampaignSpec, pairs: int) -> bool:
    """Whether confirmed trials show a gain: that there is one is proven, and one worth having is not ruled out.

    The estimate itself need not reach the minimum: of gains that are exactly as large as that, half would be missed,
    however often they are measured.
    """
    share = FIRST_LOOK if pairs <= spec.budget.confirm_pairs else LAST_LOOK
    overall, strict = comparison.ratio(confidence), comparison.ratio(1 - share * (1 - confidence))
    if overall is None or strict is None:
        return False
    return strict.low > 1 and overall.high >= 1 + spec.objective.min_gain


def missing_cells(comparison: Comparison) -> str:
    """Words about cells that count and can't be compared; "" where all can."""
    empty = comparison.contrast.empty_cells
    return f"nothing to compare at {', '.join(empty)}" if empty else ""


def _reference(before: History, trial: Trial, repeats: bool) -> Candidate:
    if repeats:
        return trial.candidate
    return before.baseline if trial.purpose is Purpose.CONFIRM else before.incumbent


def _why_unusable(trial: Trial) -> str:
    finding = trial.verification.invalid_because
    if trial.state is TrialState.PRUNED:
        return f"{trial.candidate.label} was not tried: {trial.state_reason or 'pruned'}"
    reason = trial.state_reason or "the trial is invalid"
    if finding is None:
        return f"{trial.candidate.label}: {reason}"
    return f"{trial.candidate.label}: {reason}; {finding.check}: asked {finding.asked}, seen {finding.seen}"


def _doubts(trial: Trial) -> str:
    messages = [message for cell in trial.cells.values() for message in fatal_doubts(cell.measurement)]
    return ": " + "; ".join(dict.fromkeys(messages)) if messages else ""


def _decide_repeat(case: _Case) -> Verdict:
    """Baseline or incumbent again: how far it is from itself. Never KEEP or REVERT."""
    goal = case.spec.objective
    comparison = case.known.repeat(case.trial)
    if comparison is None and case.trial.purpose is Purpose.CONFIRM:
        return case.undecided(f"{case.name} in a pair of a confirmation, with prompts that no other pair has")
    if comparison is None:
        return case.undecided(f"first measurement of {case.name}: nothing to compare it with yet")
    overall = comparison.ratio(goal.confidence)
    effects = comparison.effects(goal.confidence)
    if (missing := missing_cells(comparison)) or overall is None:
        return case.undecided(f"{case.name} against itself: {missing or 'no weighted cell'}", overall, effects)
    words = f"{case.name.removeprefix('the ')} against itself: {overall.percent}: "
    # What earlier trials alone let expect: a jump must not widen the very interval that it is held against.
    usual = noise_of(usable(case.spec, case.before.finished))
    gain = comparison.gain()
    drift = gain is not None and usual.p_value(gain) < 1 - goal.confidence
    drifted = "; more than the scatter known before explains: the machine has drifted" if drift else ""
    if is_tie(comparison, goal.confidence, goal.min_gain):
        return Verdict(Decision.TIE, words + "tie" + drifted, case.reference.id, overall, effects)
    noisy = f"the noise is too large to call it a tie within {100 * goal.min_gain:g} %"
    if overall.low > 1 or overall.high < 1:
        noisy = "not the same speed as before"
    return case.undecided(words + noisy + drifted, overall, effects)


def _decide_candidate(case: _Case) -> Verdict:
    goal, trial = case.spec.objective, case.trial
    constraints = Constraints(case.spec, (*case.before.finished, trial), case.before.baseline.id)
    found = list(constraints.of(trial.candidate.id))
    comparison = _compare(case)
    if comparison is None:
        if words := broken(found):
            return Verdict(Decision.REVERT, f"{case.name}: {words}", case.reference.id)
        return case.undecided(f"{case.name} and {case.other} share no usable prompt")
    against_baseline = comparison
    if case.reference.id != case.before.baseline.id:
        against_baseline = case.known.compare(trial.candidate.id, case.before.baseline.id) or comparison
    found += constraints.slowdowns(against_baseline)
    confirming = trial.purpose is Purpose.CONFIRM
    pairs = _confirm_pairs(case) if confirming else 0
    overall = comparison.ratio(goal.confidence)
    effects = comparison.effects(goal.confidence)
    decision, reason = _weigh(case, comparison, overall, pairs)
    if decision is Decision.KEEP and (doubtful := unsound(trial)) is not None:
        decision, reason = Decision.INCONCLUSIVE, f"{reason}, if the measurement holds: {doubtful.seen}"
    if words := broken(found):
        decision, reason = Decision.REVERT, f"{case.name}: {words}; {reason}"
    reason = "; ".join([reason, *_contrasting_domains(effects), *unproven(found)])
    if confirming:
        planned = max(pairs, case.spec.budget.confirm_pairs)
        reason = f"confirmation after {pairs} of {planned} pairs: {reason}"
    provisional = not confirming or pairs < case.spec.budget.confirm_pairs
    return Verdict(decision, reason, case.reference.id, overall, effects, provisional)


def _compare(case: _Case) -> Comparison | None:
    candidate, reference = case.trial.candidate.id, case.reference.id
    if case.trial.purpose is Purpose.CONFIRM:
        return case.known.compare_in(candidate, reference, lambda trial: trial.purpose is Purpose.CONFIRM)
    return case.known.compare(candidate, reference)


def _confirm_pairs(case: _Case) -> int:
    arms = [trial.candidate.id for trial in case.known.table.trials if trial.purpose is Purpose.CONFIRM]
    return min(arms.count(case.trial.candidate.id), arms.count(case.reference.id))


def _weigh(case: _Case, comparison: Comparison, overall: Ratio | None, pairs: int) -> tuple[Decision, str]:
    """The decision on speed alone, in words."""
    goal, name, other = case.spec.objective, case.name, case.other
    if overall is None:
        return Decision.INCONCLUSIVE, f"{name}: the objective's weights leave no cell to compare with {other}"
    if missing := missing_cells(comparison):
        return Decision.INCONCLUSIVE, f"{name} against {other}: {missing}, so {overall.percent} is not the whole load"
    if overall.low <= 0:
        return Decision.INCONCLUSIVE, f"{name} and {other} share one prompt only: the scatter can't be estimated"
    # A confirmation by the rule of the campaign's answer alone: kept by a laxer one, it would end undecided.
    confirming = case.trial.purpose is Purpose.CONFIRM
    looks_faster = overall.low > 1 and overall.value >= 1 + goal.min_gain
    if gains(comparison, goal.confidence, case.spec, pairs) if confirming else looks_faster:
        return Decision.KEEP, f"{name} is faster than {other} by {overall.percent}"
    if overall.high < 1:
        return Decision.REVERT, f"{name} is slower than {other}: {overall.percent}"
    if is_tie(comparison, goal.confidence, goal.min_gain):
        return _weigh_tie(case, overall)
    words = f"{name} against {other}: {overall.percent}"
    if looks_faster:
        return Decision.INCONCLUSIVE, f"{words}, not proven at the error that a look at a confirmation may have"
    if overall.low > 1:
        return Decision.INCONCLUSIVE, f"{words}, not provably the {100 * goal.min_gain:g} % that a change must bring"
    return Decision.INCONCLUSIVE, f"{words} can't be told from the noise of {100 * comparison.noise.tau:.1f} %"


def _weigh_tie(case: _Case, overall: Ratio) -> tuple[Decision, str]:
    words = (
        f"{case.name} against {case.other}: {overall.percent}: tie, "
        f"the difference is below {100 * case.spec.objective.min_gain:g} %"
    )
    if case.reference.id != case.before.baseline.id and _simpler(
        case.trial, case.before.of_candidate(case.reference.id)
    ):
        return Decision.KEEP, f"{words}; kept since it is simpler"
    return Decision.TIE, words


def _simpler(trial: Trial, others: Sequence[Trial]) -> bool:
    """Smaller depth, then fewer settings, then more KV room where both tell it."""
    other = others[-1]
    own, its = trial.candidate.simplicity(), other.candidate.simplicity()
    if own != its:
        return own < its
    mine, theirs = (t.deployment.seen.capacity.kv_tokens if t.deployment else None for t in (trial, other))
    return mine is not None and theirs is not None and mine > theirs


def _contrasting_domains(effects: Sequence[Effect]) -> list[str]:
    """Best and worst domain, where they provably differ."""
    domains = sorted((e for e in effects if e.domain and not e.cell), key=lambda effect: effect.ratio.value)
    if len(domains) < 2 or domains[-1].ratio.low <= domains[0].ratio.high:
        return []
    worst, best = domains[0], domains[-1]
    return [f"{best.domain} {best.ratio.percent}, {worst.domain} {worst.ratio.percent}"]
