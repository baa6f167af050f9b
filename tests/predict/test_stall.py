"""Prompts of others hold a user up, whatever a step brings: a machine whose prompts cost much, and what is forecast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.search.simulate import events, opened
from bench.search.surfaces import Surface, Truth, campaign, of_space
from spectune.domain.candidate import Candidate, Method
from spectune.domain.estimate import Estimate
from spectune.domain.events import Event, Measured
from spectune.domain.history import History
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Proposal
from spectune.domain.spec import ObjectiveSpec, SpeculationSpace
from spectune.domain.trial import Purpose
from spectune.domain.workload import LevelKind
from spectune.predict.points import speeds
from spectune.predict.speed import SpeedForecaster

STEP_S = {0: 0.0054, 1: 0.0074, 2: 0.0076, 3: 0.0081, 4: 0.0085}
"""Of one user, by depth: SGLang with a 122B-A10B mixture of experts on two H200s."""

PROMPT_S, ANSWER = 0.18, 128
"""Time to a lone user's first token there, of which 0.15 s hold the others up, and tokens of an answer."""

HELD_UP_S, SHARE, LEVELS = 0.15, 0.9, (1, 4)


def surface() -> Surface:
    space = SpeculationSpace(Method.MTP, depths=(1, 2, 3, 4))
    spec = campaign("stalled", [space], LEVELS, [0.0], ObjectiveSpec(confidence=0.9))
    named = {0: Candidate(), **dict(zip(space.depths, of_space(space), strict=True))}
    truth = {}
    for depth, candidate in named.items():
        shares = tuple(SHARE ** (j + 1) for j in range(depth))
        truth[candidate.id] = {cell.key: _truth(depth, cell.level.users, shares) for cell in spec.cells}
    return Surface("stalled", spec, Candidate(), truth)


def _truth(depth: int, users: int, shares: tuple[float, ...]) -> Truth:
    step_s = STEP_S[depth] * (1 + 0.1 * (users - 1))
    speed = 1 / (step_s / (1 + sum(shares)) + (users - 1) * HELD_UP_S / ANSWER)
    return Truth(speed, users / (1 / speed + PROMPT_S / ANSWER), shares)


def with_times(event: Event) -> Event:
    """The simulated event with the times to the first token and the rate of requests that such a machine shows."""
    if not isinstance(event, Measured):
        return event
    measured = event.measurement
    users, total = measured.cell.level.users, measured.metrics[MetricName.AGGREGATE_SPEED].value
    first, rate = PROMPT_S * (1 + 0.05 * (users - 1)), total / ANSWER
    told = {
        name: Estimate(v, v, v, 20, 0.9) for name, v in ((MetricName.TTFT_P50, first), (MetricName.REQUEST_RATE, rate))
    }
    return replace(event, measurement=replace(measured, metrics={**measured.metrics, **told}))


def told(times: bool) -> History:
    """Two baselines and depth 3."""
    here, rng = surface(), np.random.default_rng(1)
    history = opened(here)
    for candidate in (here.baseline, here.baseline, of_space(here.spec.search.speculation[0])[2]):
        purpose = Purpose.EXPLORE if candidate.speculation.depth else Purpose.BASELINE
        for event in events(here, history, Proposal(candidate, purpose, ""), 0.01, rng):
            history = history.then(with_times(event) if times else event)
    return history


def errors(times: bool) -> list[float]:
    """Of per-user speed, for the depths and users that were not measured together."""
    here = surface()
    own = [c for c in of_space(here.spec.search.speculation[0]) if c.speculation.depth != 3]
    made = SpeedForecaster().forecast(here.spec, told(times), own)
    return [
        abs(metrics[MetricName.PER_USER_SPEED].value / here.truth[candidate.id][key].per_user - 1)
        for candidate in own
        for key, metrics in made[candidate.id].cells.items()
    ]


def test_the_time_to_the_first_token_tells_how_long_others_are_held_up() -> None:
    with_it, without = errors(True), errors(False)
    assert np.median(with_it) < 0.05 < np.median(without)
    assert max(with_it) < 0.15


def test_a_lone_user_waits_for_nobody() -> None:
    alone, four = sorted((s.point for s in speeds(told(True).finished[:1])), key=lambda point: point.batch)
    assert alone.stall_s == 0
    assert four.stall_s == pytest.approx(3 * PROMPT_S / ANSWER, rel=0.02)


def test_without_times_nothing_is_said_of_prompts() -> None:
    assert {speed.point.stall_s for speed in speeds(told(False).finished)} == {0.0}


@pytest.mark.parametrize(("users", "told_it"), [(4, True), (5, False), (64, False)])
def test_only_quiet_levels_tell_how_long_a_prompt_takes(users: int, told_it: bool) -> None:
    """With more users a time to the first token is that of a queue."""
    (first, *_) = told(True).finished
    (cell,) = (cell for cell in first.cells.values() if cell.measurement.cell.level.users == 4)
    level = replace(cell.measurement.cell.level, value=users)
    busy = replace(cell, measurement=replace(cell.measurement, cell=replace(cell.measurement.cell, level=level)))
    (speed,) = speeds([replace(first, cells={"busy": busy})])
    assert (speed.point.stall_s > 0) == told_it


def test_prompts_take_no_more_than_all_of_a_tokens_time() -> None:
    (first, *_) = told(True).finished
    (cell,) = (cell for cell in first.cells.values() if cell.measurement.cell.level.users == 4)
    slow = Estimate(99.0, 99.0, 99.0, 20, 0.9)
    metrics = {**cell.measurement.metrics, MetricName.TTFT_P50: slow}
    (speed,) = speeds(
        [replace(first, cells={"c": replace(cell, measurement=replace(cell.measurement, metrics=metrics))})]
    )
    assert speed.point.stall_s == pytest.approx(1 / metrics[MetricName.PER_USER_SPEED].value)


def test_an_open_load_tells_nothing_of_prompts() -> None:
    """There a time to the first token holds a queue that nobody chose."""
    (first, *_) = told(True).finished
    cells = {}
    for key, cell in first.cells.items():
        level = replace(cell.measurement.cell.level, kind=LevelKind.RATE)
        measured = replace(cell.measurement, cell=replace(cell.measurement.cell, level=level), in_flight=4.0)
        cells[key] = replace(cell, measurement=measured)
    assert {speed.point.stall_s for speed in speeds([replace(first, cells=cells)])} == {0.0}
