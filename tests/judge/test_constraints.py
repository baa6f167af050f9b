"""Constraints: kept, broken or not told, in verdicts and conclusions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from spectune.domain.deployment import Capacity
from spectune.domain.estimate import Estimate
from spectune.domain.finding import Status
from spectune.domain.measurement import Doubt, Outcome, Phase, RequestRecord, TokenSource
from spectune.domain.metrics import MetricName
from spectune.domain.trial import MeasuredCell, Purpose
from spectune.domain.verdict import Decision
from spectune.judge.constraints import Constraints, in_words
from spectune.judge.paired import PairedJudge
from tests.judge.lab import BASELINE, Lab, Noisy, draft, make_spec

Cells = dict[str, MeasuredCell]
OK, BROKEN, UNKNOWN = Status.OK, Status.VIOLATED, Status.UNKNOWN


def with_aggregate(cells: Cells, speeds: Mapping[str, float], half: float = 0.002) -> Cells:
    """Cells with an aggregate speed: cell key -> tok/s; others have none."""

    def changed(key: str, cell: MeasuredCell) -> MeasuredCell:
        if key not in speeds:
            return cell
        value = speeds[key]
        estimate = Estimate(value, value * (1 - half), value * (1 + half), 20)
        return replace(cell, measurement=replace(cell.measurement, metrics={MetricName.AGGREGATE_SPEED: estimate}))

    return {key: changed(key, cell) for key, cell in cells.items()}


def waits(n: int, late: int, outcome: Outcome = Outcome.OK) -> tuple[RequestRecord, ...]:
    """Requests of which some wait two seconds, the others half a second."""
    last = round(5e9)
    return tuple(
        RequestRecord(
            f"p{i}", "chat", outcome, Phase.STEADY, 0, 0, 2 * 10**9 if i < late else 10**9 // 2, last, last, 101,
            TokenSource.USAGE,
        )
        for i in range(n)
    )  # fmt: skip


def explored(cells: Cells, baseline: Cells, **changes: object) -> list[tuple[Status, str, bool]]:
    """What the constraints say of draft k=3 after three baselines and two trials of it."""
    lab, noisy = Lab(make_spec(**changes)), Noisy(1)
    for _ in range(3):
        lab.trial(BASELINE, Purpose.BASELINE, noisy(), cells=baseline)
    for _ in range(2):
        lab.trial(draft(3), Purpose.EXPLORE, noisy(), cells=cells)
    found = Constraints(lab.spec, lab.history.finished, BASELINE.id).of(draft(3).id)
    return [(constraint.status, constraint.words, constraint.bars) for constraint in found]


def plain() -> Cells:
    return Lab(make_spec()).cells(Noisy(2)())


class TestAggregate:
    @pytest.mark.parametrize(
        ("speed", "status", "bars"),
        [(1100.0, OK, False), (900.0, BROKEN, True), (1003.0, UNKNOWN, False), (997.0, UNKNOWN, True)],
    )
    def test_a_floor_in_tokens_a_second_at_one_level(self, speed: float, status: Status, bars: bool) -> None:
        cells = with_aggregate(plain(), {"c1 T0": 1.0, "c4 T0": speed})
        ((found, words, stops),) = explored(cells, plain(), min_aggregate_tok_s={4: 1000.0})
        assert (found, stops) == (status, bars)
        assert words.startswith(f"all together at 4 users {speed:.4g} tok/s (")
        assert "at least 1000 are demanded" in words

    def test_what_was_not_measured_is_not_kept(self) -> None:
        doubt = Doubt("late", "", "", fatal=True)
        cells = with_aggregate(plain(), {"c4 T0": 5000.0})
        doubtful = {k: replace(c, measurement=replace(c.measurement, doubts=(doubt,))) for k, c in cells.items()}
        for measured in (plain(), doubtful):
            ((found, words, stops),) = explored(measured, plain(), min_aggregate_tok_s={4: 1000.0})
            assert (found, stops) == (UNKNOWN, True)
            assert "no speed was measured" in words

    @pytest.mark.parametrize(
        ("speed", "status", "bars"),
        [(1200.0, OK, False), (700.0, BROKEN, True), (955.0, UNKNOWN, False), (940.0, UNKNOWN, True)],
    )
    def test_a_share_of_the_baseline_at_every_level(self, speed: float, status: Status, bars: bool) -> None:
        baseline = with_aggregate(plain(), {"c1 T0": 100.0, "c4 T0": 1000.0})
        cells = with_aggregate(plain(), {"c1 T0": 150.0, "c4 T0": speed})
        alone, four = explored(cells, baseline, min_aggregate_share=0.95)
        assert (alone[0], alone[2]) == (OK, False)
        assert (four[0], four[2]) == (status, bars)
        assert "at least 95 % of it are demanded" in four[1]

    def test_nothing_to_compare_with(self) -> None:
        cells = with_aggregate(plain(), {"c1 T0": 100.0, "c4 T0": 1000.0})
        assert [found[0] for found in explored(cells, plain(), min_aggregate_share=0.95)] == [UNKNOWN, UNKNOWN]


class TestFirstTokens:
    @pytest.mark.parametrize(
        ("n", "late", "status", "bars"),
        [(200, 0, OK, False), (100, 0, UNKNOWN, False), (50, 1, UNKNOWN, True), (100, 20, BROKEN, True)],
        ids=["enough to prove it", "too few", "more than one in a hundred, by chance maybe", "proven"],
    )
    def test_p99(self, n: int, late: int, status: Status, bars: bool) -> None:
        cells = plain()
        cells["c4 T0"] = replace(cells["c4 T0"], records=waits(n, late))
        one, four = explored(cells, plain(), max_ttft_p99_s=1.0)
        assert one[0] is UNKNOWN
        assert (four[0], four[2]) == (status, bars)
        assert four[1].startswith(f"{2 * late} of {2 * n} requests at 4 users waited over 1 s for their first token")

    def test_who_never_got_one_waited_too_long_and_who_was_cut_off_is_not_counted(self) -> None:
        cells = plain()
        never = [replace(r, outcome=Outcome.TIMEOUT_FIRST, first_ns=None) for r in waits(20, 0)]
        cut = [replace(r, outcome=Outcome.CANCELLED, first_ns=None) for r in waits(20, 0)]
        cells["c4 T0"] = replace(cells["c4 T0"], records=(*waits(10, 0), *never, *cut))
        _, four = explored(cells, plain(), max_ttft_p99_s=1.0)
        assert four[1].startswith("40 of 60 requests")
        assert four[0] is BROKEN

    def test_nothing_measured(self) -> None:
        cells = {key: replace(cell, records=()) for key, cell in plain().items()}
        found = explored(cells, plain(), max_ttft_p99_s=1.0)
        assert [(status, bars) for status, _, bars in found] == [(UNKNOWN, True)] * 2


def test_words_name_what_is_kept_not_proven_and_broken() -> None:
    lab = Lab(make_spec(min_kv_tokens=100, min_running_requests=4, max_ttft_p99_s=1.0))
    lab.trial(draft(3), Purpose.EXPLORE, Noisy(1)(), capacity=Capacity(kv_tokens=200, max_running=1))
    words = in_words(Constraints(lab.spec, lab.history.finished, BASELINE.id).of(draft(3).id))
    parts = words.split(". ")
    assert parts[0] == "kept: 200 tokens of KV room, at least 100 are demanded"
    assert parts[-1].startswith("broken: only 1 running requests, at least 4 are demanded")
    assert in_words(()) == ""


def test_a_faster_candidate_that_breaks_a_floor_is_reverted_and_never_wins() -> None:
    lab, noisy, judge = Lab(make_spec(min_aggregate_share=0.95)), Noisy(3), PairedJudge()
    baseline = with_aggregate(lab.cells(noisy()), {"c1 T0": 100.0, "c4 T0": 1000.0})
    for _ in range(3):
        lab.trial(BASELINE, Purpose.BASELINE, noisy(), cells=baseline)
    faster = with_aggregate(lab.cells(noisy(0.4)), {"c1 T0": 150.0, "c4 T0": 500.0})
    trial = lab.trial(draft(3), Purpose.EXPLORE, noisy(), cells=faster)
    verdict = judge.decide(lab.spec, lab.history, trial)
    assert verdict.decision is Decision.REVERT
    assert "all together at 4 users -50.0 %" in verdict.reason
    for arm in (BASELINE, draft(3), draft(3), BASELINE):
        lab.trial(arm, Purpose.CONFIRM, noisy(), cells=baseline if arm == BASELINE else faster)
    conclusion = judge.conclude(lab.spec, lab.history)
    assert conclusion.winner == BASELINE.id
    assert "can't win: all together at 4 users -50.0 %" in conclusion.reason


def test_a_winner_is_told_with_its_constraints_proven_or_not() -> None:
    lab, noisy = Lab(make_spec(max_ttft_p99_s=1.0, max_slowdown=0.1, confirm_pairs=2), prompts=20), Noisy(4)

    def quick(gain: float) -> Cells:
        return {
            key: replace(cell, records=tuple(replace(r, due_ns=-(10**8), sent_ns=-(10**8)) for r in cell.records))
            for key, cell in lab.cells(noisy(gain)).items()
        }

    for _ in range(2):
        lab.trial(BASELINE, Purpose.BASELINE, noisy(), cells=quick(0.0))
    lab.trial(draft(3), Purpose.EXPLORE, noisy(), cells=quick(0.3))
    for arm in (BASELINE, draft(3), draft(3), BASELINE):
        lab.trial(arm, Purpose.CONFIRM, noisy(), cells=quick(0.0 if arm == BASELINE else 0.3))
    conclusion = PairedJudge().conclude(lab.spec, lab.history)
    assert conclusion.winner == draft(3).id
    told = conclusion.notes["constraints"]
    assert told.startswith("kept: 1 user: +")
    assert "not proven: 0 of 120 requests at 1 user waited over 1 s" in told
