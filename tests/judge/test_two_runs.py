from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.bench_run import RUN_SD, Basis, BenchRun, Difference, Obstacle, RunComparison, Word, quotient
from spectune.domain.deployment import Hardware
from spectune.domain.estimate import Estimate
from spectune.domain.measurement import Doubt, Phase, Slo
from spectune.domain.metrics import MetricName
from spectune.domain.workload import Level, Sampling
from spectune.judge.noise import DEPLOYMENT_SD
from spectune.judge.two_runs import compare_runs, holm
from tests.support.bench_runs import BUSY, CLIENT, WORKLOAD, Speed, around, cell, rate, run


def found(comparison: RunComparison, metric: MetricName = MetricName.PER_USER_SPEED, level: int = 0) -> Difference:
    return next(d for d in comparison.levels[level].differences if d.metric is metric)


def noisy(seed: int, mean: float, sd: float = 0.03) -> Speed:
    logs = np.random.default_rng(seed).standard_normal(200) * sd
    return lambda number: mean * (1 + number / 10) * math.exp(logs[number])


@pytest.mark.parametrize("keep_records", [True, False])
def test_a_run_does_not_differ_from_itself(keep_records: bool) -> None:
    one = run(cell(noisy(1, 50), goodput=2.0), cell(noisy(2, 30), Level(4)), keep_records=keep_records)
    comparison = compare_runs(one, one)
    differences = [d for level in comparison.levels for d in level.differences]
    assert len(differences) == comparison.tests == 11
    for difference in differences:
        assert difference.word is Word.NO_DIFFERENCE_SHOWN
        assert difference.ratio is not None
        assert difference.ratio.value == 1
        assert difference.ratio.low < 1 < difference.ratio.high
    assert not comparison.obstacles
    assert not comparison.changes


@pytest.mark.parametrize("keep_records", [True, False])
@pytest.mark.parametrize(("factor", "word"), [(1.2, Word.FASTER), (0.8, Word.SLOWER), (1.01, Word.NO_DIFFERENCE_SHOWN)])
def test_the_word_follows_the_ratio(keep_records: bool, factor: float, word: Word) -> None:
    before = run(cell(noisy(1, 50)), keep_records=keep_records)
    after = run(cell(noisy(2, 50 * factor)), keep_records=keep_records)
    speed = found(compare_runs(before, after))
    assert speed.word is word
    assert speed.ratio is not None
    assert speed.ratio.low < factor < speed.ratio.high
    assert speed.basis is (Basis.PAIRS if keep_records else Basis.ESTIMATES)


def test_longer_times_are_slower() -> None:
    before, after = run(cell(50.0), keep_records=True), run(cell(40.0), keep_records=True)
    latency = found(compare_runs(before, after), MetricName.LATENCY)
    assert latency.ratio is not None
    assert latency.ratio.value > 1
    assert latency.word is Word.SLOWER


def test_pairs_take_out_what_prompts_differ_by() -> None:
    spread = 0.4
    logs = np.random.default_rng(3).standard_normal(40) * spread
    before = run(cell(lambda n: 50 * math.exp(logs[n]), prompts=40, half=spread), keep_records=True)
    after = run(cell(lambda n: 60 * math.exp(logs[n]), prompts=40, half=spread), keep_records=True)
    paired = found(compare_runs(before, after))
    assert paired.word is Word.FASTER
    assert paired.ratio is not None
    assert paired.ratio.value == pytest.approx(1.2, rel=1e-6)
    assert paired.ratio.pairs == 40
    bare = replace(before, records={}), replace(after, records={})
    assert found(compare_runs(*bare)).word is Word.NO_DIFFERENCE_SHOWN


def test_only_prompts_of_both_are_paired_and_few_pairs_are_not_trusted() -> None:
    before, few = run(cell(prompts=40), keep_records=True), run(cell(60.0, prompts=7), keep_records=True)
    assert found(compare_runs(before, few)).basis is Basis.ESTIMATES
    enough = run(cell(60.0, prompts=8), keep_records=True)
    speed = found(compare_runs(before, enough))
    assert speed.basis is Basis.PAIRS
    assert speed.ratio is not None
    assert speed.ratio.pairs == 8


def test_requests_that_do_not_count_are_not_paired() -> None:
    one = cell(prompts=20)
    warm = replace(one, records=tuple(replace(r, phase=Phase.WARMUP) for r in one.records))
    assert found(compare_runs(run(one, keep_records=True), run(warm, keep_records=True))).basis is Basis.ESTIMATES


def test_runs_that_drift_have_wider_intervals() -> None:
    steps = [0.1 * math.sin(number / 5) for number in range(60)]
    shuffled = list(np.random.default_rng(5).permutation(steps))
    still = run(cell(prompts=60), keep_records=True)

    def width(logs: list[float]) -> float:
        drifting = run(cell(lambda n: 50 * math.exp(logs[n]), prompts=60), keep_records=True)
        ratio = found(compare_runs(still, drifting, run_sd=0)).ratio
        assert ratio is not None
        return ratio.high - ratio.low

    assert width(steps) > 1.5 * width(shuffled)


def test_the_noise_of_runs_is_in_every_interval() -> None:
    before, after = run(cell(50.0), keep_records=True), run(cell(51.0), keep_records=True)
    assert found(compare_runs(before, after)).word is Word.NO_DIFFERENCE_SHOWN
    assert found(compare_runs(before, after, run_sd=0.001)).word is Word.FASTER
    assert RUN_SD < DEPLOYMENT_SD, "what is usual lies below the middle of a prior that has to cover rough machines"


def test_unknown_spread_shows_nothing() -> None:
    wide = cell(80.0)
    unknown = replace(wide.measurement, metrics={MetricName.PER_USER_SPEED: Estimate(80, -math.inf, math.inf, 1)})
    speed = found(compare_runs(run(cell()), run(replace(wide, measurement=unknown))))
    assert speed.word is Word.NO_DIFFERENCE_SHOWN
    assert speed.ratio is not None
    assert (speed.ratio.low, speed.ratio.high) == (0, math.inf)


OTHER: dict[str, tuple[dict[str, Any], Obstacle, str]] = {
    "another workload": (
        {"workload": replace(WORKLOAD, name="agentic", sha256="1" * 64)}, Obstacle.WORKLOAD, "builtin and agentic"),
    "another cap": ({"workload": replace(WORKLOAD, sha256="1" * 64)}, Obstacle.WORKLOAD, "another cap"),
    "another endpoint": ({"api": "completions"}, Obstacle.WORKLOAD, "chat and as completions"),
    "another client": ({"client": Hardware("rack", "a processor", 8, 2**34)}, Obstacle.MACHINE, "desk"),
    "another host": ({"url": "http://gpu7:8080"}, Obstacle.MACHINE, "this machine and on gpu7"),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHER)
def test_other_questions_are_not_compared(case: str) -> None:
    changes, obstacle, words = OTHER[case]
    before, after = run(cell()), run(cell(90.0), **changes)
    comparison = compare_runs(before, after)
    assert words in comparison.obstacles[obstacle]
    assert all(d.word is Word.NOT_COMPARABLE and d.ratio is None for d in comparison.levels[0].differences)
    assert comparison.tests == 0
    anyway = compare_runs(before, after, despite=[obstacle])
    assert words in anyway.overlooked[obstacle]
    assert found(anyway).word is Word.FASTER


def test_a_port_or_more_memory_is_no_other_machine() -> None:
    after = run(url="http://localhost:9090", client=replace(CLIENT, memory_bytes=1))
    assert not compare_runs(run(), after).obstacles


@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        (Sampling(0.7), "model's own and temperature 0.7"),
        (Sampling(ignore_eos=True), "fixed length"),
        (Sampling(seed=2), "seed 2"),
        (Sampling(top_p=0.9), "top_p 0.9"),
        (Sampling(extra={"top_k": 5}), "top_k 5"),
    ],
)
def test_other_sampling_is_not_compared(sampling: Sampling, words: str) -> None:
    before, after = run(cell()), run(cell(90.0, sampling=sampling))
    level = compare_runs(before, after).levels[0]
    assert words in level.note
    assert {d.word for d in level.differences} == {Word.NOT_COMPARABLE}
    assert found(compare_runs(before, after, despite=[Obstacle.SAMPLING])).word is Word.FASTER


def test_cells_are_matched_by_sampling_first() -> None:
    before = run(cell(sampling=Sampling(0.0)), cell(sampling=Sampling(0.7)))
    after = run(cell(sampling=Sampling(0.7)), cell(sampling=Sampling(0.0)))
    assert [level.note for level in compare_runs(before, after).levels] == ["", ""]


def test_levels_of_one_run_alone_are_told() -> None:
    before, after = run(cell(), cell(level=Level(4))), run(cell(), cell(level=rate(2.0)))
    levels = compare_runs(before, after).levels
    assert [(level.level, level.note) for level in levels] == [
        ("1 user", ""), ("4 users", "only in the first run"), ("2 req/s poisson", "only in the second run"),
    ]  # fmt: skip


def test_fatal_doubts_forbid_a_comparison_and_others_are_told() -> None:
    fatal = Doubt("prefix-cache-hit", "prompts were known", "Restart.", fatal=True)
    level = compare_runs(run(cell()), run(cell(90.0, doubts=[fatal, BUSY]))).levels[0]
    assert "prompts were known" in level.note
    assert {d.word for d in level.differences} == {Word.NOT_COMPARABLE}
    assert level.doubts == ("prefix-cache-hit", "busy-host")


def test_goodput_of_another_service_level_is_left_out() -> None:
    before, after = run(cell(goodput=2.0), slo=Slo(0.5)), run(cell(goodput=2.0), slo=Slo(0.1))
    assert not any(d.metric is MetricName.GOODPUT for d in compare_runs(before, after).levels[0].differences)


def test_what_may_be_the_reason_is_named() -> None:
    changes = compare_runs(run(), run(engine_version="b2", depth=8)).changes
    assert changes == {"engine version": "b1 and b2", "speculation": "ngram k=4 and ngram k=8"}


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_is_between_no_correction_and_bonferronis(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for p, a in zip(p_values, adjusted, strict=True):
        assert p <= a <= min(1.0, len(p_values) * p)
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    assert [adjusted[index] for index in order] == sorted(adjusted)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_many_levels_need_more_proof() -> None:
    """A difference that is shown by itself is not shown among many levels without one."""

    def pair(levels: int) -> tuple[BenchRun, BenchRun]:
        others = [cell(level=Level(users)) for users in range(2, levels + 1)]
        return run(cell(50.0, half=0.04), *others), run(cell(55.5, half=0.04), *others)

    assert found(compare_runs(*pair(1))).word is Word.FASTER
    assert found(compare_runs(*pair(8))).word is Word.NO_DIFFERENCE_SHOWN


def test_false_alarms_are_rare_and_real_gains_are_seen() -> None:
    """Runs that scatter as stated, 300 times: some word for "differs" in at most about one of twenty comparisons."""
    rng = np.random.default_rng(11)

    def one(gain: float) -> BenchRun:
        shift = RUN_SD * rng.standard_normal()
        logs = rng.standard_normal(30) * 0.05
        return run(cell(lambda n: 50 * math.exp(gain + shift + logs[n]), prompts=30), keep_records=True)

    def words(gain: float) -> list[Word]:
        return [found(compare_runs(one(0.0), one(gain))).word for _ in range(300)]

    assert sum(word is not Word.NO_DIFFERENCE_SHOWN for word in words(0.0)) <= 0.08 * 300
    assert sum(word is Word.FASTER for word in words(math.log(1.15))) >= 0.9 * 300


@given(st.floats(0.1, 1e4), st.floats(0.1, 1e4), st.floats(0.001, 0.9))
def test_a_quotient_turned_around_is_its_inverse(a: float, b: float, half: float) -> None:
    there, back = quotient(around(a, half), around(b, half)), quotient(around(b, half), around(a, half))
    assert there is not None
    assert back is not None
    assert there.low == pytest.approx(1 / back.high)
    assert there.low < there.value < there.high


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf])
def test_there_is_no_quotient_of_what_is_not_above_zero(value: float) -> None:
    assert quotient(Estimate(value, value, value, 3), around(1, 0.1)) is None
