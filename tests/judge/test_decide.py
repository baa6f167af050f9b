"""Verdicts on single trials."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from spectune.domain.deployment import Capacity
from spectune.domain.finding import Finding, Status, Verification
from spectune.domain.measurement import Doubt, Outcome, Phase
from spectune.domain.trial import MeasuredCell, Purpose, Trial, TrialState
from spectune.domain.verdict import Decision, Verdict
from spectune.judge.paired import PairedJudge
from tests.judge.lab import BASELINE, Lab, Noisy, draft, flat, make_spec

JUDGE = PairedJudge()


def lab_with_baseline(noisy: Noisy, baselines: int = 3, **changes: object) -> Lab:
    lab = Lab(make_spec(**changes))
    for _ in range(baselines):
        lab.trial(BASELINE, Purpose.BASELINE, noisy())
    return lab


def decide(lab: Lab, trial: Trial) -> Verdict:
    return JUDGE.decide(lab.spec, lab.history, trial)


def test_a_clear_gain_is_kept_with_numbers_and_provisionally() -> None:
    noisy = Noisy(1)
    lab = lab_with_baseline(noisy)
    verdict = decide(lab, lab.trial(draft(3), Purpose.EXPLORE, noisy(0.4)))
    assert verdict.decision is Decision.KEEP
    assert verdict.provisional
    assert verdict.reference == BASELINE.id
    assert verdict.overall is not None
    assert verdict.overall.low < 1.4 < verdict.overall.high
    assert verdict.overall.percent in verdict.reason
    assert verdict.reason.startswith("draft k=3 is faster than the baseline by +")


def test_a_clear_loss_is_reverted() -> None:
    noisy = Noisy(2)
    lab = lab_with_baseline(noisy)
    verdict = decide(lab, lab.trial(draft(6), Purpose.EXPLORE, noisy(-0.4)))
    assert verdict.decision is Decision.REVERT
    assert "slower" in verdict.reason


def test_equal_speed_is_never_a_decision_for_either() -> None:
    noisy = Noisy(3)
    lab = lab_with_baseline(noisy)
    verdict = decide(lab, lab.trial(draft(1), Purpose.EXPLORE, noisy()))
    assert verdict.decision in (Decision.TIE, Decision.INCONCLUSIVE)
    assert "noise of" in verdict.reason or "tie" in verdict.reason


def test_a_quiet_machine_known_well_gives_a_tie() -> None:
    noisy = Noisy(4, request=0.005, deployment=0.001)
    lab = lab_with_baseline(noisy, baselines=8)
    verdict = decide(lab, lab.trial(draft(1), Purpose.EXPLORE, noisy()))
    assert verdict.decision is Decision.TIE
    assert "below 3 %" in verdict.reason


def test_a_gain_below_the_minimum_is_not_kept() -> None:
    noisy = Noisy(5, request=0.002, deployment=0.0005)
    lab = lab_with_baseline(noisy, baselines=10, min_gain=0.2)
    verdict = decide(lab, lab.trial(draft(1), Purpose.EXPLORE, noisy(0.1)))
    assert verdict.overall is not None
    assert verdict.overall.low > 1
    assert verdict.decision in (Decision.TIE, Decision.INCONCLUSIVE)


def test_effects_cover_every_slice_and_name_contrasting_domains() -> None:
    noisy = Noisy(6)
    lab = lab_with_baseline(noisy)
    verdict = decide(lab, lab.trial(draft(3), Purpose.EXPLORE, noisy(by_domain={"code_edit": 0.6, "chat": -0.3})))
    slices = {(effect.cell, effect.domain) for effect in verdict.effects}
    cells, domains = ("", "c1 T0", "c4 T0"), ("", "chat", "code_edit")
    assert slices == {(cell, domain) for cell in cells for domain in domains}
    by_domain = {effect.domain: effect.ratio for effect in verdict.effects if not effect.cell}
    assert by_domain["code_edit"].low > 1.3
    assert by_domain["chat"].high < 0.9
    assert "code_edit +" in verdict.reason
    assert "chat -" in verdict.reason


def test_an_exploration_is_held_against_the_incumbent() -> None:
    noisy = Noisy(7)
    lab = lab_with_baseline(noisy)
    first = lab.trial(draft(2), Purpose.EXPLORE, noisy(0.5))
    lab.decided(first, decide(lab, first))
    second = lab.trial(draft(3), Purpose.EXPLORE, noisy(0.2))
    verdict = decide(lab, second)
    assert verdict.reference == draft(2).id
    assert verdict.decision is Decision.REVERT
    assert "draft k=2" in verdict.reason


def test_later_trials_do_not_change_an_earlier_verdict() -> None:
    noisy = Noisy(8)
    lab = lab_with_baseline(noisy)
    first = lab.trial(draft(2), Purpose.EXPLORE, noisy(0.5))
    before = decide(lab, first)
    lab.decided(first, before)
    lab.trial(BASELINE, Purpose.ANCHOR, noisy(-0.2))
    assert decide(lab, first) == before


def test_a_tie_with_an_incumbent_goes_to_the_simpler() -> None:
    noisy = Noisy(9, request=0.003, deployment=0.0005)
    lab = lab_with_baseline(noisy, baselines=8)
    deep = lab.trial(draft(5), Purpose.EXPLORE, noisy(0.5))
    lab.decided(deep, decide(lab, deep))
    for _ in range(4):
        lab.trial(draft(5), Purpose.ANCHOR, noisy(0.5))
    shallow = lab.trial(draft(2), Purpose.EXPLORE, noisy(0.5))
    verdict = decide(lab, shallow)
    assert verdict.decision is Decision.KEEP
    assert "simpler" in verdict.reason
    deeper = lab.trial(draft(7), Purpose.EXPLORE, noisy(0.5))
    assert decide(lab, deeper).decision is Decision.TIE


class TestRepeats:
    def test_the_first_baseline_has_nothing_to_be_compared_with(self) -> None:
        lab = Lab(make_spec())
        verdict = decide(lab, lab.trial(BASELINE, Purpose.BASELINE, flat()))
        assert verdict.decision is Decision.INCONCLUSIVE
        assert verdict.overall is None
        assert "nothing to compare" in verdict.reason

    def test_the_baseline_against_itself_is_a_tie_on_a_quiet_machine(self) -> None:
        noisy = Noisy(10, request=0.005, deployment=0.001)
        lab = lab_with_baseline(noisy, baselines=8)
        verdict = decide(lab, lab.trial(BASELINE, Purpose.ANCHOR, noisy()))
        assert verdict.decision is Decision.TIE
        assert verdict.reason.startswith("baseline against itself: ")
        assert verdict.reason.endswith(": tie")

    @pytest.mark.parametrize("jump", [0.3, -0.3])
    def test_a_jump_of_the_machine_is_called_drift_and_never_kept_or_reverted(self, jump: float) -> None:
        noisy = Noisy(11)
        lab = lab_with_baseline(noisy, baselines=4)
        verdict = decide(lab, lab.trial(BASELINE, Purpose.ANCHOR, noisy(jump)))
        assert verdict.decision is Decision.INCONCLUSIVE
        assert "the machine has drifted" in verdict.reason

    def test_drift_between_references_is_taken_out(self) -> None:
        """The machine gets slower by a quarter; a candidate in between, equal to the baseline, is not a loss."""
        noisy = Noisy(12, request=0.01, deployment=0.002)
        lab = Lab(make_spec())
        slopes = [0.0, -0.03, -0.06, -0.09, -0.12, -0.15]
        for number, slope in enumerate(slopes):
            lab.trial(BASELINE, Purpose.ANCHOR if number > 1 else Purpose.BASELINE, noisy(slope))
        verdict = decide(lab, lab.trial(draft(1), Purpose.EXPLORE, noisy(-0.18)))
        assert verdict.decision is not Decision.REVERT


class TestConfirmation:
    def test_only_confirmation_trials_count(self) -> None:
        noisy = Noisy(13)
        lab = lab_with_baseline(noisy)
        lab.trial(draft(3), Purpose.EXPLORE, noisy(2.0))
        verdict = None
        for arm in (BASELINE, draft(3), draft(3), BASELINE):
            trial = lab.trial(arm, Purpose.CONFIRM, noisy(0.3 if arm != BASELINE else 0.0))
            verdict = decide(lab, trial) if arm != BASELINE else verdict
        assert verdict is not None
        assert verdict.overall is not None
        assert verdict.overall.value == pytest.approx(1.3, rel=0.05)
        assert verdict.provisional
        assert "1 of 4 pairs" in verdict.reason

    def test_the_last_pair_is_not_provisional(self) -> None:
        noisy = Noisy(14)
        lab = lab_with_baseline(noisy, confirm_pairs=2)
        for arm in (BASELINE, draft(3), BASELINE, draft(3)):
            trial = lab.trial(arm, Purpose.CONFIRM, noisy(0.3 if arm != BASELINE else 0.0))
        verdict = decide(lab, trial)
        assert verdict.decision is Decision.KEEP
        assert not verdict.provisional


class TestUnusable:
    def test_an_invalid_trial_is_reverted_in_the_words_of_the_finding(self) -> None:
        lab = lab_with_baseline(Noisy(15))
        finding = Finding("speculation-live", Status.VIOLATED, "draft k=3", "no drafts", "why", "do")
        trial = lab.trial(
            draft(3),
            Purpose.EXPLORE,
            flat(4000.0),
            state=TrialState.INVALID,
            state_reason="speculation-live: not drafting",
            checked=Verification((finding,)),
        )
        verdict = decide(lab, trial)
        assert verdict.decision is Decision.REVERT
        assert verdict.overall is None
        for words in ("not drafting", "asked draft k=3", "seen no drafts"):
            assert words in verdict.reason

    @pytest.mark.parametrize(
        ("broken", "words"),
        [
            ("no records", "no usable measurement"),
            ("fatal doubt", "the client was late"),
            ("all failed", "no usable measurement"),
            ("warm-up only", "no usable measurement"),
            ("other prompts", "share no usable prompt"),
            ("one cell missing", "nothing to compare at c4 T0"),
            ("one prompt", "one prompt only"),
            ("zero tokens", "no usable measurement"),
        ],
    )
    def test_missing_data_is_inconclusive_however_fast_the_rest(self, broken: str, words: str) -> None:
        lab = lab_with_baseline(Noisy(16))
        cells = {key: _break(broken, key, cell) for key, cell in lab.cells(flat(4000.0)).items()}
        cells = {key: cell for key, cell in cells.items() if broken != "one cell missing" or key == "c1 T0"}
        verdict = decide(lab, lab.trial(draft(3), Purpose.EXPLORE, flat(), cells=cells))
        assert verdict.decision is Decision.INCONCLUSIVE
        assert words in verdict.reason

    def test_no_valid_baseline_is_inconclusive(self) -> None:
        lab = Lab(make_spec())
        lab.trial(BASELINE, Purpose.BASELINE, flat(), state=TrialState.INVALID)
        verdict = decide(lab, lab.trial(draft(3), Purpose.EXPLORE, flat(4000.0)))
        assert verdict.decision is Decision.INCONCLUSIVE

    def test_weights_that_leave_nothing_are_inconclusive(self) -> None:
        lab = lab_with_baseline(Noisy(17), weights={64: 1.0})
        verdict = decide(lab, lab.trial(draft(3), Purpose.EXPLORE, flat(4000.0)))
        assert verdict.decision is Decision.INCONCLUSIVE
        assert "weights" in verdict.reason

    def test_identical_speeds_everywhere_are_no_win(self) -> None:
        lab = Lab(make_spec())
        for _ in range(2):
            lab.trial(BASELINE, Purpose.BASELINE, flat())
        verdict = decide(lab, lab.trial(draft(3), Purpose.EXPLORE, flat()))
        assert verdict.overall is not None
        assert verdict.overall.value == pytest.approx(1)
        assert verdict.overall.low < 1 < verdict.overall.high
        assert verdict.decision in (Decision.TIE, Decision.INCONCLUSIVE)


def _break(broken: str, key: str, cell: MeasuredCell) -> MeasuredCell:
    records = cell.records
    if broken == "fatal doubt":
        doubt = Doubt("late", "the client was late", "", fatal=True)
        return replace(cell, measurement=replace(cell.measurement, doubts=(doubt,)))
    changed = {
        "no records": (),
        "all failed": tuple(replace(r, outcome=Outcome.TIMEOUT_IDLE) for r in records),
        "warm-up only": tuple(replace(r, phase=Phase.WARMUP) for r in records),
        "other prompts": tuple(replace(r, prompt_id="x" + r.prompt_id) for r in records),
        "one prompt": records[:1],
        "zero tokens": tuple(replace(r, output_tokens=0) for r in records),
    }
    return replace(cell, records=changed.get(broken, records))


class TestConstraints:
    @pytest.mark.parametrize(
        ("capacity", "decision", "words"),
        [
            (Capacity(kv_tokens=4096, max_running=4), Decision.KEEP, "faster"),
            (Capacity(kv_tokens=100, max_running=4), Decision.REVERT, "only 100 tokens of KV room"),
            (Capacity(kv_tokens=4096, max_running=1), Decision.REVERT, "only 1 running requests"),
            (Capacity(max_running=4), Decision.KEEP, "not told by the engine"),
        ],
    )
    def test_room(self, capacity: Capacity, decision: Decision, words: str) -> None:
        noisy = Noisy(18)
        lab = lab_with_baseline(noisy, min_kv_tokens=1024, min_running_requests=2)
        verdict = decide(lab, lab.trial(draft(3), Purpose.EXPLORE, noisy(0.5), capacity=capacity))
        assert verdict.decision is decision
        assert words in verdict.reason

    @pytest.mark.parametrize(
        ("most", "decision"), [(0.1, Decision.REVERT), (0.6, Decision.KEEP), (None, Decision.KEEP)]
    )
    def test_one_level_must_not_lose_too_much(self, most: float | None, decision: Decision) -> None:
        noisy = Noisy(19)
        lab = lab_with_baseline(noisy, max_slowdown=most)
        base = noisy()
        trial = lab.trial(draft(3), Purpose.EXPLORE, lambda c, d, p: base(c, d, p) * (3.0 if c == "c1 T0" else 0.6))
        verdict = decide(lab, trial)
        assert verdict.decision is decision
        assert ("4 users lose" in verdict.reason) == (decision is Decision.REVERT)


def test_stalled_requests_do_not_turn_a_gain_into_a_loss() -> None:
    noisy = Noisy(20)
    lab = lab_with_baseline(noisy)
    base = noisy(0.2)
    trial = lab.trial(draft(3), Purpose.EXPLORE, lambda c, d, p: base(c, d, p) / (50 if (c, p) == ("c1 T0", 2) else 1))
    verdict = decide(lab, trial)
    assert verdict.overall is not None
    assert verdict.overall.value > 1.1
    assert math.isfinite(verdict.overall.high)
