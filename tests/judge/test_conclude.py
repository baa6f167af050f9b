"""Conclusions of whole campaigns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Capacity
from spectune.domain.finding import Finding, Status, Verification
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Conclusion
from spectune.judge.paired import PairedJudge
from tests.judge.lab import BASELINE, OK, Lab, Noisy, draft, make_spec

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
