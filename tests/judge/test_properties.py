"""Laws that hold for any data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from spectune.domain.history import History
from spectune.domain.measurement import RequestRecord
from spectune.domain.metrics import MetricName
from spectune.domain.trial import Purpose, Trial
from spectune.judge.comparison import Comparer, Comparison
from spectune.judge.contrast import Gain
from spectune.judge.noise import Noise
from spectune.judge.paired import PairedJudge
from spectune.judge.table import Table
from tests.judge.lab import BASELINE, Lab, Noisy, aggregate_cells, draft, flat, make_spec

seeds = st.integers(0, 10_000)


def campaign(seed: int, gain: float = 0.1, repeats: int = 2) -> Lab:
    noisy = Noisy(seed, request=0.05, deployment=0.02)
    lab = Lab(make_spec(), prompts=4)
    lab.trial(BASELINE, Purpose.BASELINE, noisy())
    for _ in range(repeats):
        lab.trial(draft(3), Purpose.CONFIRM, noisy(gain))
        lab.trial(BASELINE, Purpose.CONFIRM, noisy())
    return lab


@given(seeds)
@settings(max_examples=8, deadline=None)
def test_swapping_the_arms_inverts_the_ratio(seed: int) -> None:
    lab = campaign(seed)
    known = Comparer.of(lab.spec, lab.history.finished)
    there, back = known.compare(draft(3).id, BASELINE.id), known.compare(BASELINE.id, draft(3).id)
    assert there is not None
    assert back is not None
    for one, other in zip(there.effects(0.95), back.effects(0.95), strict=True):
        assert one.ratio.value == pytest.approx(1 / other.ratio.value)
        assert one.ratio.low == pytest.approx(1 / other.ratio.high)
        assert one.ratio.high == pytest.approx(1 / other.ratio.low)


@given(seeds, st.floats(0.01, 100))
@settings(max_examples=8, deadline=None)
def test_scaling_all_speeds_leaves_the_verdict(seed: int, factor: float) -> None:
    lab = campaign(seed)
    slower = _with_records(lab.history, lambda record: replace(record, last_ns=round((record.last_ns or 0) * factor)))
    last = max(number for number, trial in lab.history.trials.items() if trial.candidate == draft(3))
    one = PairedJudge().decide(lab.spec, lab.history, lab.history.trials[last])
    other = PairedJudge().decide(lab.spec, slower, slower.trials[last])
    assert one.decision is other.decision
    assert one.overall is not None
    assert other.overall is not None
    assert one.overall.low == pytest.approx(other.overall.low, rel=1e-4)


@given(seeds)
@settings(max_examples=8, deadline=None)
def test_the_order_of_records_does_not_matter(seed: int) -> None:
    lab = campaign(seed)
    rng = np.random.default_rng(seed)
    trials = {
        number: replace(
            trial,
            cells={
                key: replace(cell, records=tuple(cell.records[i] for i in rng.permutation(len(cell.records))))
                for key, cell in reversed(list(trial.cells.items()))
            },
        )
        for number, trial in lab.history.trials.items()
    }
    judge = PairedJudge()
    assert judge.conclude(lab.spec, lab.history) == judge.conclude(lab.spec, replace(lab.history, trials=trials))


@given(st.floats(0.001, 0.1), st.floats(1.01, 3), st.floats(0, 0.01), st.floats(0.1, 3))
def test_the_interval_widens_with_the_scatter_between_deployments(
    tau: float, more: float, within: float, deployments: float
) -> None:
    gain = Gain(0.1, 20, within, 10, deployments, 0.0)
    one, other = (
        Noise(np.array([t**2]), np.array([1e-12]), np.array([1.0])).ratio(gain, 0.95) for t in (tau, tau * more)
    )
    assert one.low > other.low
    assert one.high < other.high
    assert one.value == other.value


def test_the_t_approximation_is_exact_for_a_scaled_inverse_chi_squared_scatter() -> None:
    df, scale = 5.0, 0.02
    variance = np.geomspace(1e-6, 1, 4000)
    density = stats.invgamma.pdf(variance, df / 2, scale=df * scale**2 / 2) * variance
    noise = Noise(variance, np.full_like(variance, 1e-15), density / density.sum())
    ratio = noise.ratio(Gain(0.0, 10, 0.0, math.inf, 1.0, 0.0), 0.95)
    assert math.log(ratio.high) == pytest.approx(scale * stats.t.ppf(0.975, df), rel=1e-3)


@pytest.mark.parametrize("tau", [0.006, 0.01, 0.04])
def test_the_scatter_between_deployments_is_found(tau: float) -> None:
    found = []
    for seed in range(4):
        noisy = Noisy(seed, request=0.01, deployment=tau)
        lab = Lab(make_spec())
        for _ in range(14):
            lab.trial(BASELINE, Purpose.ANCHOR, noisy())
        found.append(Comparer.of(lab.spec, lab.history.finished).noise.tau)
    assert 0.6 * tau < float(np.median(found)) < 1.7 * tau


def confirmed(seed: int, common: float, own: float, gain: float = 0.0, pairs: int = 4) -> Comparison:
    """A candidate against the baseline in pairs side by side, on a machine that slows both of a pair alike."""
    noisy, rng = Noisy(seed, request=0.03, deployment=own), np.random.default_rng(seed)
    lab = Lab(make_spec(), prompts=20)
    for _ in range(2):
        lab.trial(BASELINE, Purpose.BASELINE, noisy(rng.normal(0, common)))
    for _ in range(pairs):
        slowed, one, other = math.exp(rng.normal(0, common)), noisy(), noisy(gain)
        lab.pair(
            BASELINE,
            draft(3),
            lambda *at, speed=one, by=slowed: by * speed(*at),
            lambda *at, speed=other, by=slowed: by * speed(*at),
        )
    comparison = Comparer.of(lab.spec, lab.history.finished).compare(draft(3).id, BASELINE.id)
    assert comparison is not None
    return comparison


def test_what_slows_both_servers_of_a_pair_does_not_widen_their_comparison() -> None:
    ratios = [confirmed(seed, common=0.1, own=0.003, gain=0.03).ratio(0.95) for seed in range(20)]
    found = [ratio for ratio in ratios if ratio is not None]
    assert float(np.median([ratio.high - ratio.low for ratio in found])) < 0.03
    assert sum(ratio.low <= 1.03 <= ratio.high for ratio in found) >= 17
    assert sum(ratio.low > 1 for ratio in found) >= 18


@pytest.mark.parametrize(("pairs", "counted"), [(1, True), (2, False), (4, False)])
def test_with_pairs_side_by_side_nothing_else_counts(pairs: int, counted: bool) -> None:
    weights = confirmed(1, common=0.0, own=0.003, pairs=pairs).contrast.weights
    assert (float(np.abs(weights[:2]).max()) > 1e-3) is counted


def test_side_by_side_promises_nothing_where_servers_differ_by_themselves() -> None:
    ratios = [confirmed(seed, common=0.0, own=0.03).ratio(0.95) for seed in range(20)]
    assert sum(ratio is not None and ratio.low <= 1 <= ratio.high for ratio in ratios) >= 17


def test_prompt_scatter_of_a_candidate_is_not_averaged_out_by_repeating_it() -> None:
    """What a prompt does to a candidate every time is a property of the prompt, not noise of a trial."""
    noisy = Noisy(3, request=0.0, deployment=0.0)
    lab = Lab(make_spec())
    effect = np.random.default_rng(1).normal(0, 0.2, lab.prompts)
    for _ in range(8):
        lab.trial(BASELINE, Purpose.CONFIRM, noisy())
        lab.trial(draft(3), Purpose.CONFIRM, lambda c, d, p: noisy()(c, d, p) * math.exp(effect[p]))
    comparison = Comparer.of(lab.spec, lab.history.finished).compare(draft(3).id, BASELINE.id)
    assert comparison is not None
    gain = comparison.gain()
    assert gain is not None
    assert gain.within == pytest.approx(np.var(effect, ddof=1) / (4 * lab.prompts), rel=0.05)


def test_contrasts_use_the_neighbours_where_the_machine_drifts_and_all_where_it_does_not() -> None:
    lab = Lab(make_spec())
    for _ in range(3):
        lab.trial(BASELINE, Purpose.ANCHOR, flat())
    lab.trial(draft(3), Purpose.EXPLORE, flat())
    for _ in range(3):
        lab.trial(BASELINE, Purpose.ANCHOR, flat())
    table = Table.of(lab.spec, lab.history.finished)
    weights = {}
    for name, nugget, drift in (("calm", 1.0, 1e-9), ("drifting", 1e-9, 1.0)):
        comparer = Comparer(table, Noise(np.array([nugget]), np.array([drift]), np.array([1.0])))
        comparison = comparer.compare(draft(3).id, BASELINE.id)
        assert comparison is not None
        weights[name] = comparison.contrast.weights[:, 0]
    assert weights["calm"] == pytest.approx([-1 / 6] * 3 + [1] + [-1 / 6] * 3, abs=1e-3)
    assert weights["drifting"] == pytest.approx([0, 0, -0.5, 1, -0.5, 0, 0], abs=1e-3)


def test_aggregate_speed_is_judged_by_its_own_metric() -> None:
    lab = Lab(make_spec(maximise=MetricName.AGGREGATE_SPEED))
    for value in (100.0, 101.0, 99.5):
        lab.trial(BASELINE, Purpose.BASELINE, flat(), cells=aggregate_cells(lab, value, 0.01))
    trial = lab.trial(draft(3), Purpose.EXPLORE, flat(1.0), cells=aggregate_cells(lab, 150.0, 0.01))
    verdict = PairedJudge().decide(lab.spec, lab.history, trial)
    assert verdict.overall is not None
    assert verdict.overall.value == pytest.approx(1.5, rel=0.02)
    assert verdict.overall.low > 1
    assert {effect.domain for effect in verdict.effects} == {""}


def _with_records(history: History, change: Callable[[RequestRecord], RequestRecord]) -> History:
    def changed(trial: Trial) -> Trial:
        cells = {
            key: replace(cell, records=tuple(change(record) for record in cell.records))
            for key, cell in trial.cells.items()
        }
        return replace(trial, cells=cells)

    return replace(history, trials={number: changed(trial) for number, trial in history.trials.items()})
