"""Schedules of arrivals: each tested for what its name claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from spectune.domain.errors import InputError
from spectune.domain.workload import Arrival, Level, LevelKind, Message, Prompt
from spectune.load.arrivals import due_times

NOW = Prompt("p", "a", (Message("user", "hi"),), 8)


def open_level(value: float, arrival: Arrival, burstiness: float = 1.0) -> Level:
    return Level(value, LevelKind.RATE, arrival, burstiness)


def times(level: Level, count: int, seconds: float = 10.0, seed: int = 1) -> list[float]:
    due = due_times(level, seconds, seed)
    return [due(NOW) for _ in range(count)]


def traced(dues: Sequence[float | None], speed: float = 1.0) -> list[float]:
    due = due_times(open_level(speed, Arrival.TRACE), 10.0, 1)
    return [due(Prompt(f"p{n}", "a", NOW.messages, 8, due_s=at)) for n, at in enumerate(dues)]


def gaps(level: Level, count: int = 20_000) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.diff([0.0, *times(level, count)])


@pytest.mark.parametrize("rate", [0.3, 7.0, 1000.0])
def test_constant_gaps_are_equal_and_do_not_drift(rate: float) -> None:
    ns = [round(at * 1e9) for at in times(open_level(rate, Arrival.CONSTANT), 5000)]
    assert set(np.diff(ns)) <= {math.floor(1e9 / rate), math.ceil(1e9 / rate)}
    assert ns[0] == 0
    assert ns[-1] == round(4999 / rate * 1e9)


def test_poisson_gaps_are_exponential_and_independent() -> None:
    found = gaps(open_level(4.0, Arrival.POISSON))
    assert stats.kstest(found, "expon", args=(0, 1 / 4.0)).pvalue > 0.01
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.02


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gamma_gaps_have_the_stated_squared_coefficient_of_variation(burstiness: float) -> None:
    found = gaps(open_level(5.0, Arrival.GAMMA, burstiness))
    assert found.mean() == pytest.approx(1 / 5.0, rel=0.05)
    assert found.var() / found.mean() ** 2 == pytest.approx(burstiness, rel=0.1)
    assert stats.kstest(found, "gamma", args=(1 / burstiness, 0, burstiness / 5.0)).pvalue > 0.01


def test_a_ramp_rises_evenly_from_nothing_and_then_stays() -> None:
    rate, seconds = 2000.0, 10.0
    found = np.array(times(open_level(rate, Arrival.RAMP), 20_000, seconds))
    up = found[found < seconds]
    assert up.size == pytest.approx(rate * seconds / 2, rel=0.03)
    # The share of a rising ramp's arrivals up to t is (t / seconds)^2.
    assert stats.kstest((up / seconds) ** 2, "uniform").pvalue > 0.01
    later = np.diff(found[found >= seconds])
    assert stats.kstest(later, "expon", args=(0, 1 / rate)).pvalue > 0.01


def test_a_trace_is_replayed_from_its_first_prompt_at_its_speed() -> None:
    assert traced([100.0, 100.0, 101.5, 104.0], speed=2.0) == [0.0, 0.0, 0.75, 2.0]


@pytest.mark.parametrize(
    ("dues", "words"), [([None], "p0 has no arrival time"), ([0.0, 5.0, 4.5], "p2 arrives 0.5 s before")]
)
def test_a_trace_without_order_is_refused(dues: list[float | None], words: str) -> None:
    with pytest.raises(InputError, match=words):
        traced(dues)


@pytest.mark.parametrize("arrival", [Arrival.POISSON, Arrival.GAMMA, Arrival.RAMP])
def test_the_seed_and_the_level_decide_and_nothing_else(arrival: Arrival) -> None:
    level = open_level(3.0, arrival, 2.0)
    assert times(level, 50) == times(level, 50)
    assert times(level, 50) != times(level, 50, seed=2)
    assert times(level, 50) != times(open_level(3.1, arrival, 2.0), 50)


@given(
    arrival=st.sampled_from([a for a in Arrival if a is not Arrival.TRACE]),
    rate=st.floats(0.01, 1e5),
    burstiness=st.floats(0.1, 20),
    seed=st.integers(0, 1 << 31),
)
def test_time_never_runs_backwards(arrival: Arrival, rate: float, burstiness: float, seed: int) -> None:
    found = times(open_level(rate, arrival, burstiness), 200, seed=seed)
    assert all(0 <= a <= b < math.inf for a, b in zip(found, islice(found, 1, None), strict=False))


@pytest.mark.parametrize(
    "level",
    [
        Level(4),
        open_level(0.0, Arrival.POISSON),
        open_level(-1.0, Arrival.CONSTANT),
        open_level(math.inf, Arrival.POISSON),
        open_level(1.0, Arrival.GAMMA, 0.0),
        open_level(1.0, Arrival.GAMMA, math.nan),
        open_level(0.0, Arrival.TRACE),
    ],
)
def test_what_makes_no_schedule_is_refused(level: Level) -> None:
    with pytest.raises(InputError):
        due_times(level, 10.0, 1)
