"""Conclusions of whole campaigns."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from scipy.stats import norm

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Capacity
from spectune.domain.estimate import Ratio
from spectune.domain.finding import Finding, Status, Verification
from spectune.domain.spec import SearchSpec
from spectune.domain.trial import Purpose, Trial, TrialState
from spectune.domain.verdict import Conclusion, Decision
from spectune.judge.comparison import Comparison
from spectune.judge.paired import PairedJudge
from spectune.judge.trial_verdict import gains
from tests.judge.lab import BASELINE, OK, Lab, Noisy, draft, flat, make_spec

JUDGE = PairedJudge()


def explored(noisy: Noisy, gains: dict[int, float], **changes: object) -> Lab:
    lab = Lab(make_spec(**changes))
    for _ in range(2):
        lab.trial(BASELINE, Purpose.BASELINE, noisy())
    for depth, gain in gains.items():
        trial = lab.trial(draft(depth), Purpose.EXPLORE, noisy(gain))
        lab.decided(trial, JUDGE.decide(lab.spec, lab.history, trial))
    lab.trial(BASELINE, Purpose.ANCHOR, noisy())
    return lab


def confirm(
    lab: Lab,
    noisy: Noisy,
    candidate: Candidate,
    gain: float,
    pairs: int = 4,
    checked: Verification = OK,
    capacity: Capacity | None = None,
) -> Lab:
    for place in range(2 * pairs):
        arm = (BASELINE, candidate, candidate, BASELINE)[place % 4]
        lab.trial(arm, Purpose.CONFIRM, noisy(gain if arm == candidate else 0.0), checked=checked, capacity=capacity)
    return lab


def conclude(lab: Lab) -> Conclusion:
    return JUDGE.conclude(lab.spec, lab.history)


def test_a_confirmed_gain_wins() -> None:
    noisy = Noisy(1)
    conclusion = conclude(confirm(explored(noisy, {1: 0.1, 3: 0.3}), noisy, draft(3), 0.3))
    assert conclusion.winner == draft(3).id
    assert conclusion.changed
    assert conclusion.overall is not None
    assert conclusion.overall.low > 1.2
    assert conclusion.reason == f"draft k=3 is faster by {conclusion.overall.percent}, confirmed by 4 interleaved pairs"
    assert conclusion.noise is not None
    assert 0 < conclusion.noise < 0.03


def test_luck_in_exploration_does_not_win() -> None:
    noisy = Noisy(2)
    conclusion = conclude(confirm(explored(noisy, {3: 0.3}), noisy, draft(3), 0.0))
    assert conclusion.winner == BASELINE.id
    assert not conclusion.changed
    assert "nothing" in conclusion.reason or "inconclusive" in conclusion.reason


def test_a_small_gain_in_noise_says_what_would_tell() -> None:
    noisy = Noisy(3, deployment=0.03)
    conclusion = conclude(confirm(explored(noisy, {3: 0.1}), noisy, draft(3), 0.04))
    assert conclusion.winner == BASELINE.id
    assert conclusion.reason.startswith("inconclusive: gain of draft k=3 ")
    assert "from noise of" in conclusion.reason
    assert "would tell" in conclusion.reason or "would be needed" in conclusion.reason


def test_without_confirmation_there_is_no_winner_and_no_change() -> None:
    conclusion = conclude(explored(Noisy(4), {3: 0.4}, confirm_pairs=0))
    assert conclusion.winner is None
    assert not conclusion.changed
    assert "no confirmation was asked for" in conclusion.reason


def test_nothing_better_needs_no_confirmation() -> None:
    conclusion = conclude(explored(Noisy(5), {1: -0.3, 3: -0.4}))
    assert conclusion.winner == BASELINE.id
    assert conclusion.reason.startswith("nothing beats what you have: draft k=1 came closest")


def test_one_pair_of_four_is_no_confirmation() -> None:
    noisy = Noisy(6)
    conclusion = conclude(confirm(explored(noisy, {3: 0.4}), noisy, draft(3), 0.4, pairs=1))
    assert conclusion.winner is None
    assert "1 of 4 pairs" in conclusion.reason


def test_no_baseline_no_conclusion() -> None:
    conclusion = conclude(Lab(make_spec()))
    assert conclusion.winner is None
    assert "baseline" in conclusion.reason


@pytest.mark.parametrize(
    ("search", "winner", "words"),
    [
        (SearchSpec(strategy="staged"), BASELINE.id, "no other candidate could be measured"),
        (SearchSpec(knobs={"threads": (1,)}), None, "the budget ended before anything was tried"),
    ],
)
def test_nothing_tried(search: SearchSpec, winner: str | None, words: str) -> None:
    lab = explored(Noisy(7), {})
    lab.spec = replace(lab.spec, search=search)
    conclusion = conclude(lab)
    assert conclusion.winner == winner
    assert words in conclusion.reason


def test_only_the_baseline() -> None:
    conclusion = conclude(explored(Noisy(7), {}))
    assert conclusion.winner == BASELINE.id
    assert all(best.candidate == BASELINE.id for best in conclusion.best)


UNKNOWN = Verification((*OK.findings, Finding("answers-right", Status.UNKNOWN, "same answers", "not compared")))


@pytest.mark.parametrize(
    ("checked", "words"),
    [(UNKNOWN, "check answers-right could not tell"), (Verification(), "no recorded checks")],
)
def test_what_is_not_proven_does_not_win(checked: Verification, words: str) -> None:
    noisy = Noisy(8)
    conclusion = conclude(confirm(explored(noisy, {3: 0.4}), noisy, draft(3), 0.4, checked=checked))
    assert conclusion.winner == BASELINE.id
    assert "is faster by" in conclusion.reason
    assert words in conclusion.reason


def test_what_the_service_as_it_is_never_passes_ranks_nobody() -> None:
    simulated = Verification((*OK.findings, Finding("output-valid", Status.VIOLATED, "real output", "simulated")))
    noisy = Noisy(8)
    lab = confirm(explored(noisy, {3: 0.4}), noisy, draft(3), 0.4)
    every = {number: replace(trial, verification=simulated) for number, trial in lab.history.trials.items()}
    lab.history = replace(lab.history, trials=every)
    assert conclude(lab).winner == draft(3).id
    some = {n: t if t.candidate == draft(3) else replace(t, verification=OK) for n, t in every.items()}
    lab.history = replace(lab.history, trials=some)
    assert conclude(lab).winner == BASELINE.id


def test_room_that_is_not_told_does_not_win() -> None:
    noisy = Noisy(9)
    lab = explored(noisy, {3: 0.4}, min_kv_tokens=100)
    conclusion = conclude(confirm(lab, noisy, draft(3), 0.4))
    assert not conclusion.changed
    assert "not told by the engine" in conclusion.reason


def test_an_invalid_trial_bars_a_candidate_from_winning_and_from_every_slice() -> None:
    noisy = Noisy(10)
    lab = confirm(explored(noisy, {3: 0.4}), noisy, draft(3), 0.4)
    lab.trial(draft(3), Purpose.CONFIRM, noisy(0.4), state=TrialState.INVALID, state_reason="answers-wrong")
    conclusion = conclude(lab)
    assert conclusion.winner == BASELINE.id
    assert "answers-wrong" in conclusion.reason
    assert all(best.candidate == BASELINE.id for best in conclusion.best)


def capacity(lab: Lab, candidate: Candidate, kv_tokens: int) -> None:
    """Gives every trial of a candidate so much room."""

    def roomy(trial: Trial) -> Trial:
        assert trial.deployment is not None
        seen = replace(trial.deployment.seen, capacity=Capacity(kv_tokens=kv_tokens))
        return replace(trial, deployment=replace(trial.deployment, seen=seen))

    trials = {n: roomy(t) if t.candidate == candidate else t for n, t in lab.history.trials.items()}
    lab.history = replace(lab.history, trials=trials)


class TestSeveralConfirmed:
    def test_each_has_a_wider_interval(self) -> None:
        noisy = Noisy(20)
        lab = explored(noisy, {1: 0.3, 3: 0.3})
        alone = conclude(confirm(lab, noisy, draft(3), 0.3)).overall
        both = conclude(confirm(lab, noisy, draft(1), 0.0)).overall
        assert alone is not None
        assert both is not None
        assert (alone.confidence, both.confidence) == pytest.approx((0.95, 0.975))

    def test_of_equals_the_simpler_wins(self) -> None:
        noisy = Noisy(21)
        lab = confirm(explored(noisy, {2: 0.3, 6: 0.31}), noisy, draft(6), 0.31)
        conclusion = conclude(confirm(lab, noisy, draft(2), 0.3))
        assert conclusion.winner == draft(2).id
        assert conclusion.reason.startswith("draft k=2 is faster by")

    def test_a_clearly_faster_one_wins_though_it_is_less_simple(self) -> None:
        noisy = Noisy(22)
        lab = confirm(explored(noisy, {2: 0.2, 6: 0.5}), noisy, draft(2), 0.2)
        assert conclude(confirm(lab, noisy, draft(6), 0.5)).winner == draft(6).id

    def test_of_equally_simple_ones_the_roomier_wins(self) -> None:
        noisy = Noisy(23)
        other = Candidate(Speculation(Method.MTP, 3))
        lab = confirm(explored(noisy, {3: 0.3}), noisy, draft(3), 0.3)
        lab = confirm(lab, noisy, other, 0.3)
        capacity(lab, other, 9000)
        capacity(lab, draft(3), 8000)
        assert conclude(lab).winner == other.id
        capacity(lab, draft(3), 10_000)
        assert conclude(lab).winner == draft(3).id


@pytest.mark.parametrize(
    ("sd", "value", "pairs", "won"),
    [
        (2.63, 1.02, 4, True),
        (2.53, 1.02, 4, False),
        (2.16, 1.02, 5, True),
        (2.06, 1.02, 5, False),
        (9.0, 1.02, 8, False),
    ],
    ids=["proven at the first look", "open at the first look", "proven at the second", "open", "provably small"],
)
def test_gains(sd: float, value: float, pairs: int, won: bool) -> None:
    """A gain of so many standard errors, at a confidence of 95 %."""

    class Told(Comparison):
        def ratio(self, confidence: float, cell: str = "", domain: str = "") -> Ratio:
            half = norm.ppf((1 + confidence) / 2) * math.log(value) / sd
            return Ratio(value, value * math.exp(-half), value * math.exp(half), 9, confidence)

    told = Told(None, None)  # type: ignore[arg-type]
    assert gains(told, 0.95, make_spec(), pairs) == won


def test_a_confirmation_is_kept_where_its_look_is_passed_and_open_where_it_is_not() -> None:
    """What its planned pairs do not prove must be open, however much it looks like a gain: kept, it would end there,
    and the campaign without an answer."""
    open_ones = 0
    for seed in range(60, 75):
        noisy = Noisy(seed, deployment=0.01)
        lab = confirm(explored(noisy, {3: 0.1}, confirm_pairs=3), noisy, draft(3), 0.035, pairs=3)
        verdict = JUDGE.decide(lab.spec, lab.history, lab.history.ordered[-1])
        assert verdict.overall is not None
        assert (verdict.decision is Decision.KEEP) == conclude(lab).changed
        seems = verdict.overall.low > 1 and verdict.overall.value >= 1.03
        open_ones += seems and verdict.decision is Decision.INCONCLUSIVE
    assert open_ones > 0


class TestSmallGains:
    """What is proven to gain and may well gain the minimum wins; what provably gains less does not."""

    def concluded(self, gain: float, seed: int, min_gain: float, pairs: int = 8) -> Conclusion:
        noisy = Noisy(seed, request=0.005, deployment=0.004)
        lab = explored(noisy, {3: 0.1}, min_gain=min_gain)
        return conclude(confirm(lab, noisy, draft(3), gain, pairs=pairs))

    def test_a_gain_just_below_the_minimum_that_may_be_it_wins(self) -> None:
        conclusion = self.concluded(0.028, 33, 0.03)
        assert conclusion.overall is not None
        assert conclusion.overall.value < 1.03 < conclusion.overall.high
        assert conclusion.winner == draft(3).id

    def test_a_gain_provably_below_the_minimum_changes_nothing(self) -> None:
        conclusion = self.concluded(0.03, 31, 0.1)
        assert conclusion.winner == BASELINE.id
        assert conclusion.reason.startswith("nothing beats what you have: draft k=3 was best and gains +")


def test_the_luckiest_of_many_equals_never_wins_without_confirmation() -> None:
    """The best of twenty candidates that are the baseline looks better than it is. Confirmed, it does not."""
    noisy = Noisy(40, deployment=0.03)
    lab = explored(noisy, dict.fromkeys(range(1, 21), 0.0))
    assert not conclude(lab).changed
    slices = [best for best in conclude(lab).best if best.cell == "" and best.domain == ""]
    assert [best.candidate for best in slices] == [BASELINE.id]
    last = conclude(confirm(lab, noisy, draft(7), 0.0))
    assert last.winner == BASELINE.id
    assert not last.changed


class TestBest:
    def test_the_best_differs_by_domain(self) -> None:
        noisy = Noisy(11)
        lab = explored(noisy, {})
        for depth, code, chat in ((1, 0.2, 0.3), (3, 0.8, -0.3)):
            lab.trial(draft(depth), Purpose.EXPLORE, noisy(by_domain={"code_edit": code, "chat": chat}))
        best = {(b.cell, b.domain): b for b in conclude(lab).best}
        assert len(best) == 9
        assert best["", "code_edit"].candidate == draft(3).id
        assert best["", "chat"].candidate == draft(1).id
        assert best["c1 T0", "chat"].candidate == draft(1).id
        ratio = best["", "code_edit"].ratio
        assert ratio is not None
        assert ratio.low > 1
        assert ratio.confidence > 0.95

    def test_what_can_not_be_told_apart_is_the_runner_up(self) -> None:
        noisy = Noisy(12)
        lab = explored(noisy, {2: 0.5, 3: 0.5, 6: -0.2})
        overall = conclude(lab).best[0]
        assert {overall.candidate, overall.runner_up} == {draft(2).id, draft(3).id}

    def test_where_nothing_is_provably_faster_the_baseline_is_named(self) -> None:
        noisy = Noisy(13)
        overall = conclude(explored(noisy, {2: 0.002, 6: -0.5})).best[0]
        assert overall.candidate == BASELINE.id
        assert overall.ratio is None
        assert overall.runner_up == draft(2).id


@pytest.mark.parametrize(
    ("doubted", "who"),
    [({BASELINE.id}, "the baseline"), ({draft(1).id, draft(3).id}, "a candidate"), ({draft(3).id}, None)],
)
def test_what_was_never_measured_soundly_is_no_reason_to_stay(doubted: set[str], who: str | None) -> None:
    noisy, lab = Noisy(4), Lab(make_spec())
    finding = Finding("measured-soundly", Status.UNKNOWN, "this load", "a single request fell into the steady window")
    for arm, purpose in (
        (BASELINE, Purpose.BASELINE),
        (BASELINE, Purpose.BASELINE),
        (draft(1), Purpose.EXPLORE),
        (draft(3), Purpose.EXPLORE),
    ):
        checked = Verification((*OK.findings, finding)) if arm.id in doubted else OK
        lab.trial(arm, purpose, noisy(-0.1 if arm != BASELINE else 0.0), checked=checked)
    conclusion = conclude(lab)
    if who is None:
        assert conclusion.winner == BASELINE.id
    else:
        assert conclusion.winner is None
        assert conclusion.reason == (
            f"no decision: {who} was never measured soundly (a single request fell into the steady window); "
            "longer measurements would tell more"
        )


def test_a_gain_of_which_nothing_is_known_is_no_reason_to_stay() -> None:
    lab = Lab(make_spec(concurrency=(1,)))
    speeds = iter((10.0, 100.0, 30.0))
    for arm, purpose in ((BASELINE, Purpose.BASELINE), (BASELINE, Purpose.BASELINE), (draft(1), Purpose.EXPLORE)):
        lab.trial(arm, purpose, flat(next(speeds)))
    conclusion = conclude(lab)
    assert conclusion.winner is None
    assert conclusion.reason.startswith("no decision: the gain of draft k=1 is not known at all (-5.")
