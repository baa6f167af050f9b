"""Objectives: what can be asked for, what is refused, and what the values are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Deployment, Seen
from spectune.domain.errors import InputError
from spectune.domain.measurement import Measurement, Outcome, Phase, RequestRecord, TokenSource
from spectune.domain.metrics import MetricName
from spectune.domain.spec import CampaignSpec, ConstraintSpec, ObjectiveSpec, WorkloadSpec
from spectune.domain.trial import MeasuredCell, Purpose, Trial
from spectune.domain.verdict import Decision
from spectune.domain.workload import Cell, Level, LevelKind, Sampling
from spectune.judge.objectives import check_objective
from spectune.judge.paired import PairedJudge
from spectune.judge.values import gpus_of, reader
from tests.judge.lab import BASELINE, Lab, aggregate_cells, draft, flat, make_spec

GOODPUT, AGGREGATE, PER_USER = MetricName.GOODPUT, MetricName.AGGREGATE_SPEED, MetricName.PER_USER_SPEED
LOADS = WorkloadSpec(concurrency=(1, 4), rates=(2.5,), temperatures=(0.0, 0.7))


def asked(**objective: object) -> CampaignSpec:
    return CampaignSpec("t", workload=LOADS, objective=ObjectiveSpec(**objective))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "message", "advice"),
    [
        (asked(maximise=GOODPUT), "nothing says which requests are good", "objective.slo_ttft_s"),
        (asked(slo_ttft_s=2.0), "objective.slo_ttft_s is set, but objective.maximise is per_user_tok_s", "goodput"),
        (asked(maximise=AGGREGATE, slo_tpot_s=0.1), "objective.slo_tpot_s is set", "max_ttft_p99_s"),
        (asked(per_gpu=True), "objective.per_gpu is true", "aggregate_tok_s"),
        (
            asked(weights={8: 1.0}),
            "objective.weights names 8 users, which is no level of workload.concurrency",
            "4 users",
        ),
        (asked(weights={"5-9": 1.0}), "objective.weights names 5-9 users", "1 user"),
        (asked(weights={"2/s": 1.0}), "objective.weights names 2/s, which is no level of workload.rates", "2.5 req/s"),
        (asked(weights={"1-4": 0.7, 4: 0.3}), "objective.weights names 4 users twice: '1-4' and '4'", "overlap"),
        (asked(weights={1: 0.0}), "gives every level the weight 0", ""),
        (
            replace(asked(), constraints=ConstraintSpec(min_aggregate_tok_s={16: 100.0})),
            "constraints.min_aggregate_tok_s names 16 users",
            "4 users",
        ),
        (replace(asked(), workload=WorkloadSpec(concurrency=())), "no load level", "workload.concurrency"),
    ],
)
def test_what_means_nothing_is_refused(spec: CampaignSpec, message: str, advice: str) -> None:
    with pytest.raises(InputError) as error:
        check_objective(spec)
    assert message in error.value.message
    assert advice in error.value.advice


@pytest.mark.parametrize(
    "spec",
    [
        asked(),
        asked(maximise=GOODPUT, slo_tpot_s=0.1, per_gpu=True),
        asked(weights={"1-4": 0.7, "2.5/s": 0.3}),
        replace(asked(), constraints=ConstraintSpec(min_aggregate_tok_s={"1-4": 10.0})),
    ],
)
def test_what_means_something_is_not(spec: CampaignSpec) -> None:
    check_objective(spec)


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        ({}, {"c1": 1, "c4": 1, "r2.5": 1}),
        ({4: 2.0}, {"c1": 0, "c4": 2, "r2.5": 0}),
        ({"1-4": 0.7, "2.5/s": 0.3}, {"c1": 0.35, "c4": 0.35, "r2.5": 0.3}),
        ({"1-2": 0.7, "3-9": 0.3}, {"c1": 0.7, "c4": 0.3, "r2.5": 0}),
        ({"2-3/s": 1.0}, {"c1": 0, "c4": 0, "r2.5": 1}),
        ({"2.5x": 1.0}, {"c1": 0, "c4": 0, "r2.5": 0}),
    ],
)
def test_weights(weights: Mapping[int | str, float], shares: Mapping[str, float]) -> None:
    spec = asked(weights=weights)
    for cell in spec.cells:
        assert spec.weight(cell) == pytest.approx(shares[cell.level.key])


def request(ttft_s: float, tpot_s: float = 0.01, at_s: float = 0.0, outcome: Outcome = Outcome.OK) -> RequestRecord:
    due = round(at_s * 1e9)
    first = due + round(ttft_s * 1e9)
    last = first + round(100 * tpot_s * 1e9)
    return RequestRecord("p", "chat", outcome, Phase.STEADY, due, due, first, last, last, 101, TokenSource.USAGE)


ONE_USER = Level(1)


def cell_of(records: list[RequestRecord], level: Level = ONE_USER) -> MeasuredCell:
    """Ten seconds."""
    return MeasuredCell(Measurement(Cell(level, Sampling(0.0)), 0.0, 10.0, {}, {}, {}, 1.0), tuple(records))


def value(goal: ObjectiveSpec, cell: MeasuredCell, candidate: Candidate = BASELINE) -> tuple[float, float]:
    trial = Trial(1, 1, candidate, Purpose.EXPLORE, "", 0.0)
    ((_, found),) = list(reader(goal)(trial, cell))
    return found


class TestGoodput:
    GOAL = ObjectiveSpec(maximise=MetricName.GOODPUT, slo_ttft_s=1.0, slo_tpot_s=0.02)
    GOOD, SLOW, LATE = request(0.5), request(0.5, 0.03), request(2.0)

    def test_requests_within_the_bounds_count_and_half_a_one_is_added(self) -> None:
        cell = cell_of([self.GOOD] * 7 + [self.SLOW, self.LATE, request(0.5, outcome=Outcome.RESET)])
        assert math.exp(value(self.GOAL, cell)[0]) == pytest.approx(7.5 / 10)

    def test_none_at_all_is_a_value_that_tells_little(self) -> None:
        log, spread = value(self.GOAL, cell_of([self.LATE] * 20))
        assert math.exp(log) == pytest.approx(0.05)
        assert math.sqrt(spread) > 1

    def test_requests_outside_the_steady_window_do_not_count(self) -> None:
        records = [self.GOOD] * 5 + [replace(self.GOOD, phase=Phase.WARMUP)] * 5
        assert value(self.GOAL, cell_of(records)) == value(self.GOAL, cell_of([self.GOOD] * 5))
        assert list(reader(self.GOAL)(Trial(1, 1, BASELINE, Purpose.EXPLORE, "", 0.0), cell_of([]))) == []

    def test_how_many_were_sent_is_given_in_an_open_loop_and_chance_in_a_closed_one(self) -> None:
        records = [request(0.5, tpot) for tpot in (0.001, 0.02)] * 10
        closed, opened = (
            value(self.GOAL, cell_of(records, level))[1] for level in (Level(4), Level(2, LevelKind.RATE))
        )
        assert closed > opened > 0

    def test_who_keeps_the_bounds_wins_although_it_is_no_faster_over_all(self) -> None:
        lab = Lab(make_spec(maximise=GOODPUT, slo_ttft_s=1.0))

        def cells(share: float) -> dict[str, MeasuredCell]:
            good = round(200 * share)
            records = [request(0.5)] * good + [request(1.5)] * (200 - good)
            return {key: MeasuredCell(cell.measurement, tuple(records)) for key, cell in lab.cells(flat()).items()}

        for _ in range(3):
            lab.trial(BASELINE, Purpose.BASELINE, flat(), cells=cells(0.5))
        trial = lab.trial(draft(3), Purpose.EXPLORE, flat(), cells=cells(0.95))
        verdict = PairedJudge().decide(lab.spec, lab.history, trial)
        assert verdict.decision is Decision.KEEP
        assert verdict.overall is not None
        assert verdict.overall.value == pytest.approx(190.5 / 100.5, rel=1e-6)


class TestPerGpu:
    @pytest.mark.parametrize(
        ("argv", "knobs", "seen", "gpus"),
        [
            ((), {}, {}, 1),
            (("server", "--tp-size", "2"), {}, {}, 2),
            (("server", "--tensor-parallel-size=4"), {}, {}, 4),
            (("server", "--tp-size", "2"), {"tp-size": 4}, {}, 4),
            (("server", "--tp-size", "2"), {"dp-size": 2, "pp-size": 2}, {}, 8),
            (("server", "--tp-size", "4", "--dp-size", "4", "--enable-dp-attention"), {}, {}, 4),
            (("server", "--tp-size", "two"), {}, {}, 1),
            (("server", "--tp-size", "2"), {}, {"tp-size": 8}, 8),
        ],
    )
    def test_gpus(self, argv: tuple[str, ...], knobs: dict[str, int], seen: dict[str, int], gpus: int) -> None:
        deployment = Deployment(argv, {}, "", 1, 0.0, 1.0, 0.0, Seen(settings=seen))
        trial = Trial(1, 1, Candidate(knobs=knobs), Purpose.EXPLORE, "", 0.0, deployment=deployment)
        assert gpus_of(trial) == gpus

    def test_twice_the_gpus_for_half_as_much_again_is_a_loss(self) -> None:
        lab = Lab(make_spec(maximise=AGGREGATE, per_gpu=True))
        for _ in range(3):
            lab.trial(BASELINE, Purpose.BASELINE, flat(), cells=aggregate_cells(lab, 100.0, 0.005))
        double = Candidate(knobs={"tp-size": 2})
        trial = lab.trial(double, Purpose.EXPLORE, flat(), cells=aggregate_cells(lab, 150.0, 0.005))
        verdict = PairedJudge().decide(lab.spec, lab.history, trial)
        assert verdict.decision is Decision.REVERT
        assert verdict.overall is not None
        assert verdict.overall.value == pytest.approx(0.75, rel=1e-6)
