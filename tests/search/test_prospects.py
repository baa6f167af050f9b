from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from spectune.domain.deployment import Capacity
from spectune.domain.estimate import Estimate, Ratio
from spectune.domain.forecast import Forecast
from spectune.domain.metrics import MetricName
from spectune.domain.spec import ConstraintSpec, WorkloadSpec
from spectune.search.prospects import Prospect, hopeless, in_words, prospect, ranked
from tests.support.histories import BASELINE, draft, spec

LEVELS = WorkloadSpec(concurrency=(1, 8), temperatures=(0.0,))


def forecast(
    depth: int, lead: tuple[float, float, float] = (1.1, 1.0, 1.21), speeds: tuple[float, float] = (100.0, 50.0)
) -> Forecast:
    cells = {
        key: {MetricName.PER_USER_SPEED: Estimate(value, value * 0.95, value * 1.05, 2)}
        for key, value in zip(("c1 T0", "c8 T0"), speeds, strict=True)
    }
    ratio = Ratio(*lead, 3, 0.9)
    return Forecast(draft(depth) if depth else BASELINE, cells, None, "3 trials", ratio, ratio, draft(9).id)


def made(depth: int, *lead: float) -> Prospect:
    found = prospect(forecast(depth, (lead[0], lead[1], lead[2])))
    assert found is not None
    return found


def test_chance_and_improvement_are_those_of_a_normal_gain() -> None:
    found = made(1, 1.1, 1.0, 1.21)
    draws = np.random.default_rng(1).normal(found.gain, found.spread, 400_000)
    assert found.spread == pytest.approx(math.log(1.1) / 1.645, rel=1e-3)
    assert found.chance == pytest.approx((draws > 0).mean(), abs=0.005)
    assert found.improvement == pytest.approx(np.maximum(0, draws).mean(), rel=0.01)
    assert found.possible(0.95) == pytest.approx(0.21, abs=1e-3)


def test_the_uncertain_may_be_more_promising_than_the_likely() -> None:
    likely, uncertain, hopeless_one = (
        forecast(1, (1.01, 1.0, 1.02)),
        forecast(2, (0.99, 0.8, 1.225)),
        forecast(3, (0.7, 0.6, 0.8)),
    )
    found = {one.candidate.id: one for one in (likely, uncertain, hopeless_one)}
    order = ranked(found, [draft(1), draft(2), draft(3), draft(4)])
    assert [p.candidate.speculation.depth for p in order] == [2, 1, 3]


def test_a_certain_gain_is_no_division_by_nothing() -> None:
    found = made(1, 1.1, 1.1, 1.1)
    assert found.chance == 1
    assert found.improvement == pytest.approx(math.log(1.1))


@pytest.mark.parametrize("lead", [None, Ratio(1, -1, 2, 3), Ratio(1, 0.5, math.inf, 3), Ratio(math.nan, 0.5, 2, 3)])
def test_without_an_interval_there_is_no_prospect(lead: Ratio | None) -> None:
    assert prospect(replace(forecast(1), lead=lead)) is None


@pytest.mark.parametrize(
    ("kv_tokens", "running", "words"),
    [
        (9_000, 40, "9000 tokens of KV room expected, at least 10000"),
        (9_700, 40, ""),  # too near to the floor for a forecast
        (20_000, 10, "10 running requests expected, at least 16"),
        (None, None, ""),
    ],
)
def test_too_little_room(kv_tokens: int | None, running: int | None, words: str) -> None:
    floors = spec(constraints=ConstraintSpec(min_kv_tokens=10_000, min_running_requests=16))
    found = hopeless(floors, replace(forecast(1), capacity=Capacity(kv_tokens, running)), None)
    assert words in found
    assert bool(words) == bool(found)


@pytest.mark.parametrize(("busy", "lost"), [(50.0, ""), (40.0, ""), (30.0, "a loss of 40 % expected at 8 users")])
def test_a_level_that_loses_too_much(busy: float, lost: str) -> None:
    floors = spec(constraints=ConstraintSpec(max_slowdown=0.15), workload=LEVELS)
    found = hopeless(floors, forecast(1, speeds=(150, busy)), forecast(0))
    assert lost in found
    assert bool(lost) == bool(found)


def test_words_say_what_is_expected_where() -> None:
    one = replace(forecast(2, speeds=(150, 45)), gain=Ratio(1.31, 1.12, 1.48, 3))
    found = prospect(one)
    assert found is not None
    words = in_words(spec(workload=LEVELS), found, forecast(0), "draft k=9")
    assert words == (
        "forecast +31 % (+12 to +48); +50 % at 1 user; -10 % at 8 users; +10 % (+0 to +21) against draft k=9, the best "
        "so far; 95 % likely the faster of the two (3 trials)"
    )
