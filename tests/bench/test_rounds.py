"""What a machine does to all alike in a round is taken out; what one setting does is not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.search.rounds import SPEED, USED, geometric, level, merged
from spectune.domain.estimate import Estimate
from spectune.domain.measurement import Acceptance, Measurement
from spectune.domain.metrics import MetricName
from spectune.domain.workload import Cell, Level, Sampling

CELL = Cell(Level(1), Sampling(temperature=0.0))


def turn(speed: float) -> Measurement:
    values = {name: 1 / speed if name is MetricName.TTFT_P50 else speed for name in USED}
    return Measurement(CELL, 0.0, 5.0, {name: Estimate(v, v, v, 9, 0.9) for name, v in values.items()}, {}, {}, 1.0)


@given(st.lists(st.floats(-0.5, 0.5), min_size=4, max_size=4))
def test_weather_leaves_no_trace(weather: list[float]) -> None:
    """Two starts of two rounds: whatever the machine did, both settings are what they are, and in every turn."""
    true = {"slow": 50.0, "fast": 80.0}
    rounds = [weather[:2], weather[2:]]
    starts = [{(name, CELL.key): [turn(v * math.exp(w)) for w in some] for name, v in true.items()} for some in rounds]
    usual = math.exp(sum(weather) / 4)
    for found in level(starts):
        for (name, _), turns in found.items():
            for one in turns:
                assert one.metrics[SPEED].value == pytest.approx(true[name] * usual)
                assert one.metrics[MetricName.TTFT_P50].value == pytest.approx(1 / (true[name] * usual))


def test_turns_become_one_measurement() -> None:
    made = merged([turn(40.0), turn(90.0)])
    assert made.metrics.keys() == set(USED)
    assert made.metrics[SPEED].value == pytest.approx(60.0)
    assert made.window_s == 10.0


def test_counts_of_windows_add_up() -> None:
    counts = Acceptance(100, 200, 90, (0.6, 0.3)), Acceptance(300, 600, 450, (0.9, 0.6))
    found = merged([replace(turn(40.0), acceptance=one) for one in counts]).acceptance
    assert found is not None
    assert (found.drafts, found.drafted, found.accepted) == (400, 800, 540)
    assert found.per_position == pytest.approx((0.825, 0.525))
    assert merged([turn(40.0), replace(turn(90.0), acceptance=Acceptance(0, 0, 0))]).acceptance is None


def test_a_geometric_mean_has_students_interval() -> None:
    # Logs 0 and 2: mean 1, standard error 1, and t of 6.314 at 90 % with one degree of freedom.
    found = geometric([1.0, math.exp(2.0)])
    logs = [math.log(value) for value in (found.low, found.value, found.high)]
    assert logs == pytest.approx([-5.314, 1.0, 7.314], abs=1e-3)
