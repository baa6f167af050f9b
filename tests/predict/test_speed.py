"""Forecasts against surfaces whose truth is known; see bench/search/surfaces.py for how they differ from the model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bench.search.forecasts import h200, misses
from bench.search.simulate import events, opened, with_trial
from bench.search.surfaces import Surface, Truth, campaign, of_space, random_surfaces
from spectune.domain.candidate import Candidate, Method
from spectune.domain.deployment import Capacity
from spectune.domain.estimate import Estimate
from spectune.domain.events import Measured, TrialEnded
from spectune.domain.forecast import Forecast
from spectune.domain.history import History
from spectune.domain.measurement import Acceptance, Doubt
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Proposal
from spectune.domain.spec import ObjectiveSpec, SpeculationSpace
from spectune.domain.trial import Purpose, Trial, TrialState
from spectune.domain.verdict import Decision, Verdict
from spectune.predict.speed import SpeedForecaster

PER_USER, AGGREGATE = MetricName.PER_USER_SPEED, MetricName.AGGREGATE_SPEED
FORECASTER = SpeedForecaster()


@cache
def surfaces() -> tuple[Surface, ...]:
    """Random machines that ask for 90 % intervals."""
    return tuple(
        replace(s, spec=replace(s.spec, objective=replace(s.spec.objective, confidence=0.9)))
        for s in random_surfaces(16, seed=11)
    )


def told(surface: Surface, candidates: list[Candidate], noise: float = 0.01, seed: int = 0) -> History:
    """A history of one trial of each candidate, the baseline's being baselines."""
    rng, history = np.random.default_rng(seed), opened(surface)
    for candidate in candidates:
        purpose = Purpose.BASELINE if candidate.id == surface.baseline.id else Purpose.EXPLORE
        history = with_trial(surface, history, Proposal(candidate, purpose, ""), noise, rng)
    return history


def depths(surface: Surface) -> list[Candidate]:
    return of_space(surface.spec.search.speculation[0])


def pairs(surface: Surface) -> list[list[Candidate]]:
    """Two depths measured: the middle with the shallowest, and with a deeper one."""
    own = depths(surface)
    middle = (len(own) - 1) // 2
    return [[own[middle], own[0]], [own[middle], own[min(len(own) - 1, middle + 2)]]]


def compared(noise: float, measured: bool, few: int = 2) -> Iterator[tuple[float, float, Estimate]]:
    """(true speed, relative error, estimate) over all surfaces, for measured or for unmeasured depths."""
    for surface in surfaces():
        for seed, pair in enumerate(pairs(surface)):
            history = told(surface, [surface.baseline, surface.baseline, *pair[:few]], noise, seed)
            own = depths(surface)
            found = FORECASTER.forecast(surface.spec, history, own)
            for candidate in own:
                if (candidate in pair[:few]) == measured:
                    for key, metrics in found[candidate.id].cells.items():
                        true = surface.truth[candidate.id][key].per_user
                        yield true, metrics[PER_USER].value / true - 1, metrics[PER_USER]


@pytest.mark.parametrize("noise", [0.01, 0.03])
def test_unmeasured_depths_after_two_trials(noise: float) -> None:
    rows = list(compared(noise, measured=False))
    inside = [estimate.low <= true <= estimate.high for true, _, estimate in rows]
    assert np.median([abs(error) for _, error, _ in rows]) <= 0.04
    assert 0.85 <= np.mean(inside) <= 0.95


@pytest.mark.parametrize("few", [1, 2])
def test_unmeasured_depths_of_a_real_server(few: int) -> None:
    """SGLang on H200s, where the first step of speculation costs a third of a step and the next ones little."""
    found = list(misses(h200(), few))
    assert np.median([abs(miss.off) for miss in found]) <= 0.04
    assert np.mean([miss.inside(with_noise=True) for miss in found]) >= 0.85


def test_one_trial_gives_a_forecast_and_two_a_narrower_one() -> None:
    one = list(compared(0.01, measured=False, few=1))
    assert np.median([abs(error) for _, error, _ in one]) <= 0.05
    assert np.mean([estimate.low <= true <= estimate.high for true, _, estimate in one]) >= 0.85
    surface = surfaces()[0]
    pair = pairs(surface)[0]
    asked = [candidate for candidate in depths(surface) if candidate not in pair]
    widths = []
    for few in (1, 2):
        found = FORECASTER.forecast(surface.spec, told(surface, [surface.baseline, *pair[:few]]), asked)
        widths.append(np.mean([m[PER_USER].half_width for f in found.values() for m in f.cells.values()]))
    assert widths[1] < widths[0]


def test_measured_depths_are_reproduced() -> None:
    noise = 0.02
    rows = list(compared(noise, measured=True))
    assert np.mean([estimate.low <= true <= estimate.high for true, _, estimate in rows]) >= 0.85
    assert np.median([abs(error) for _, error, _ in rows]) <= noise


def test_gains_and_leads_cover_the_truth() -> None:
    inside, leads = [], []
    for surface in surfaces():
        own = depths(surface)
        history = told(surface, [surface.baseline, surface.baseline, *pairs(surface)[0]])
        for name, found in FORECASTER.forecast(surface.spec, history, own).items():
            assert found.gain is not None
            assert found.lead is not None
            inside.append(
                found.gain.low <= math.exp(surface.score(name) - surface.score(surface.baseline.id)) <= found.gain.high
            )
            true = math.exp(surface.score(name) - surface.score(found.leader))
            leads.append(found.lead.low <= true <= found.lead.high)
            assert found.leader in {trial.candidate.id for trial in history.finished}
    assert np.mean(inside) >= 0.85
    assert np.mean(leads) >= 0.85


def simple(
    levels: tuple[int, ...] = (1, 4, 16), objective: ObjectiveSpec | None = None, method: Method = Method.MTP
) -> Surface:
    """A machine of the model's own kind with 80 % acceptance: 10 ms a step, knee at 100 tokens, 5 % a draft."""
    spec = campaign("simple", [SpeculationSpace(method, (1, 2, 3, 4, 5))], levels, [0.0], objective or ObjectiveSpec())
    truth: dict[str, dict[str, Truth]] = {}
    for candidate in [Candidate(), *of_space(spec.search.speculation[0])]:
        k = candidate.speculation.depth
        shares = tuple(0.8 ** (i + 1) for i in range(k))
        truth[candidate.id] = {}
        for cell in spec.cells:
            step = 0.01 * (1 + cell.level.users * (1 + k) / 100 + 0.05 * k)
            speed = (1 + sum(shares)) / step
            truth[candidate.id][cell.key] = Truth(speed, cell.level.users * speed * 0.8, shares)
    return Surface("simple", spec, Candidate(), truth)


def test_nothing_is_said_without_a_measurement() -> None:
    surface = simple()
    assert FORECASTER.forecast(surface.spec, opened(surface), depths(surface)) == {}


def test_methods_never_measured_and_other_settings_are_absent() -> None:
    surface = simple()
    history = told(surface, [surface.baseline, depths(surface)[2]])
    other = of_space(SpeculationSpace(Method.NGRAM, (4,)))[0]
    knob = replace(depths(surface)[0], knobs={"threads": 2})
    found = FORECASTER.forecast(surface.spec, history, [other, knob, Candidate(), depths(surface)[0]])
    assert set(found) == {Candidate().id, depths(surface)[0].id}


def test_the_baseline_alone_is_forecast_as_measured() -> None:
    surface = simple()
    found = FORECASTER.forecast(surface.spec, told(surface, [surface.baseline] * 2), [surface.baseline])
    forecast = found[surface.baseline.id]
    assert forecast.gain is not None
    assert forecast.gain.value == pytest.approx(1)
    assert forecast.leader == surface.baseline.id
    assert forecast.basis == "2 trials, 2 without drafts"
    for key, metrics in forecast.cells.items():
        assert metrics[PER_USER].value == pytest.approx(surface.truth[surface.baseline.id][key].per_user, rel=0.03)


def test_invalid_trials_and_fatal_doubts_are_not_used() -> None:
    surface = simple()
    good = told(surface, [surface.baseline, depths(surface)[2]])
    expected = FORECASTER.forecast(surface.spec, good, depths(surface))
    with_bad = good
    for state, doubts in ((TrialState.INVALID, ()), (TrialState.VALID, (Doubt("prefix-cache-hit", "", "", True),))):
        for event in events(
            surface, with_bad, Proposal(depths(surface)[4], Purpose.EXPLORE, ""), 0.5, np.random.default_rng(5)
        ):
            if isinstance(event, Measured):
                event = replace(event, measurement=replace(event.measurement, doubts=doubts))
            if isinstance(event, TrialEnded):
                event = replace(event, state=state)
            with_bad = with_bad.then(event)
    found = FORECASTER.forecast(surface.spec, with_bad, depths(surface))
    for name, forecast in expected.items():
        assert found[name].cells["c1 T0"][PER_USER].value == forecast.cells["c1 T0"][PER_USER].value


def test_trials_beside_another_server_are_not_used() -> None:
    surface = simple()
    history = told(surface, [surface.baseline, depths(surface)[2], depths(surface)[4]])
    halved = replace(history, trials={n: replace(t, beside=1) if n > 1 else t for n, t in history.trials.items()})
    assert set(FORECASTER.forecast(surface.spec, halved, [surface.baseline, *depths(surface)])) == {surface.baseline.id}


def test_one_wild_trial_is_doubted() -> None:
    surface = simple()
    history = told(surface, [surface.baseline, surface.baseline, *depths(surface)[:3]], 0.005)
    for event in events(
        surface, history, Proposal(surface.baseline, Purpose.ANCHOR, ""), 0.005, np.random.default_rng(3)
    ):
        if isinstance(event, Measured):
            slow = {n: Estimate(e.value / 3, e.low / 3, e.high / 3, e.n) for n, e in event.measurement.metrics.items()}
            event = replace(event, measurement=replace(event.measurement, metrics=slow))
        history = history.then(event)
    found = FORECASTER.forecast(surface.spec, history, depths(surface))
    deep = depths(surface)[4].id
    assert found[deep].cells["c1 T0"][PER_USER].value == pytest.approx(surface.truth[deep]["c1 T0"].per_user, rel=0.15)


def test_speeds_without_an_interval_promise_little() -> None:
    """One request a cell: what it says of a depth must not count as a measurement would."""
    surface = simple()
    history = told(surface, [surface.baseline, surface.baseline, depths(surface)[0]], 0.005)
    vague = replace(history, trials={number: _of_one_request(trial) for number, trial in history.trials.items()})
    own = depths(surface)[0]
    sure, unsure = (FORECASTER.forecast(surface.spec, one, [own])[own.id].gain for one in (history, vague))
    assert sure is not None
    assert unsure is not None
    assert unsure.high - unsure.low > 2 * (sure.high - sure.low)


def _of_one_request(trial: Trial) -> Trial:
    cells = {}
    for key, cell in trial.cells.items():
        metrics = {name: Estimate(e.value, 0.0, math.inf, 1) for name, e in cell.measurement.metrics.items()}
        cells[key] = replace(cell, measurement=replace(cell.measurement, metrics=metrics))
    return replace(trial, cells=cells)


def test_aggregate_speed_keeps_the_wait_of_its_cell() -> None:
    surface = simple(objective=ObjectiveSpec(maximise=MetricName.AGGREGATE_SPEED))
    history = told(surface, [surface.baseline, *depths(surface)[1:3]], 0.002)
    found = FORECASTER.forecast(surface.spec, history, depths(surface))
    for candidate in depths(surface)[3:]:
        for key, metrics in found[candidate.id].cells.items():
            users, speed = int(key.split()[0][1:]), metrics[PER_USER].value
            assert metrics[AGGREGATE].value < users * speed
            assert metrics[AGGREGATE].half_width < metrics[PER_USER].half_width


def test_aggregate_speed_saturates_where_no_more_requests_run() -> None:
    surface = simple((1, 8, 64))
    small = replace(surface, max_running=dict.fromkeys(surface.truth, 8), truth=_capped(surface, 8))
    found = FORECASTER.forecast(surface.spec, told(small, [small.baseline, depths(small)[2]]), depths(small)[3:4])
    cells = found[depths(small)[3].id].cells
    assert cells["c64 T0"][AGGREGATE].value == pytest.approx(cells["c8 T0"][AGGREGATE].value, rel=0.05)
    assert found[depths(small)[3].id].capacity == Capacity(max_running=8)


def _capped(surface: Surface, running: int) -> dict[str, dict[str, Truth]]:
    """The same surface with every level above `running` like that level."""
    return {
        name: {key: cells[f"c{min(int(key.split()[0][1:]), running)} T0"] for key in cells}
        for name, cells in surface.truth.items()
    }


def test_less_room_at_a_depth_is_part_of_its_forecast() -> None:
    surface = simple((1, 64), ObjectiveSpec(maximise=MetricName.AGGREGATE_SPEED, weights={64: 1.0}))
    history = told(surface, [surface.baseline, depths(surface)[2]])
    free = FORECASTER.forecast(surface.spec, history, depths(surface))
    tight = SpeedForecaster(
        lambda spec, history, candidate: Capacity(max_running=8 if candidate.speculation.depth == 4 else 64)
    ).forecast(surface.spec, history, depths(surface))
    deep = depths(surface)[3].id
    free_gain, tight_gain = free[deep].gain, tight[deep].gain
    assert free_gain is not None
    assert tight_gain is not None
    assert tight_gain.value < free_gain.value / 2


def test_whoever_broke_a_constraint_does_not_lead() -> None:
    surface = simple()
    fast, slow = depths(surface)[2], depths(surface)[0]
    history = told(surface, [surface.baseline, fast, slow])
    broken = replace(history.trials[2], verdict=_reverted(history.trials[2].verdict))
    history = replace(history, trials={**history.trials, 2: broken})
    found = FORECASTER.forecast(surface.spec, history, [fast])
    assert found[fast.id].leader == slow.id


def _reverted(verdict: Verdict | None) -> Verdict:
    assert verdict is not None
    return replace(verdict, decision=Decision.REVERT)


def test_drafts_looked_up_in_text_count_by_their_share_of_steps() -> None:
    surface = simple(method=Method.NGRAM)
    truth = {
        name: {key: replace(cell, per_user=cell.per_user, drafting=0.3) for key, cell in cells.items()}
        for name, cells in surface.truth.items()
    }
    for candidate in depths(surface):
        k = candidate.speculation.depth
        for key, cell in truth[candidate.id].items():
            users = int(key.split()[0][1:])
            tokens = 1 + 0.3 * sum(cell.shares)
            speed = tokens / (0.01 * (1 + users * (1 + 0.3 * k) / 100))
            truth[candidate.id][key] = replace(cell, per_user=speed, aggregate=users * speed)
    text = replace(surface, truth=truth)
    found = FORECASTER.forecast(text.spec, told(text, [text.baseline, depths(text)[2]]), depths(text))
    for candidate in depths(text):
        for key, metrics in found[candidate.id].cells.items():
            assert metrics[PER_USER].value == pytest.approx(truth[candidate.id][key].per_user, rel=0.05)


odd_numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.floats(1e-6, 1e6), st.sampled_from([0.0, -1.0, 1e-300, 1e300])
)
odd_counts = st.integers(-5, 10**13)
odd_acceptance = st.builds(
    Acceptance, odd_counts, odd_counts, odd_counts, st.lists(st.floats(-1, 3), max_size=6).map(tuple)
)


@settings(
    deadline=None,
    max_examples=25,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.data())
def test_no_numbers_make_it_fail(data: st.DataObject) -> None:
    surface = simple((1, 8))
    history = opened(surface)
    for candidate in (surface.baseline, depths(surface)[2], depths(surface)[0]):
        for event in events(surface, history, Proposal(candidate, Purpose.EXPLORE, ""), 0.01, np.random.default_rng(1)):
            if isinstance(event, Measured):
                own = data.draw(st.tuples(odd_numbers, odd_numbers, odd_numbers))
                metrics = {**event.measurement.metrics, PER_USER: Estimate(*own, 3)}
                acceptance = data.draw(st.none() | odd_acceptance)
                event = replace(event, measurement=replace(event.measurement, metrics=metrics, acceptance=acceptance))
            history = history.then(event)
    found: dict[str, Forecast] = dict(FORECASTER.forecast(surface.spec, history, depths(surface)))
    for forecast in found.values():
        for found_metrics in forecast.cells.values():
            assert all(0 <= e.low <= e.value <= e.high and not math.isnan(e.value) for e in found_metrics.values())
