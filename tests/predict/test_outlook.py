from __future__ import annotations

import math

import pytest

from spectune.domain.candidate import Candidate
from spectune.domain.estimate import Ratio
from spectune.predict.outlook import AtLevel, by_level, crossover
from spectune.predict.speed import SpeedForecaster
from tests.predict.test_speed import depths, simple, told


def at(users: int, low: float, value: float, high: float) -> AtLevel:
    return AtLevel(users, Candidate(), Ratio(value, low, high, 3))


def test_the_crossover_lies_between_levels_in_the_logarithm() -> None:
    found = crossover([at(1, 1.3, 1.5, 1.7), at(4, 0.9, 1.1, 1.3), at(16, 0.7, 1 / 1.1, 1.05), at(64, 0.5, 0.6, 0.8)])
    assert found.users is not None
    assert found.low is not None
    assert found.high is not None
    assert 1 < found.low < 4 < found.users < 16 < found.high < 64
    assert found.users == pytest.approx(8)


@pytest.mark.parametrize("gains", [[1.5, 1.2], [0.9, 0.8], [0.8, 1.2], [1.5], []])
def test_no_crossover_where_the_gain_does_not_fall_through_nothing(gains: list[float]) -> None:
    assert crossover([at(2**i, gain, gain, gain) for i, gain in enumerate(gains)]).users is None


def test_levels_between_the_measured_ones_are_forecast() -> None:
    """The simple machine gains while the tokens of its batch are few: at 80 % acceptance and a knee of 100 tokens every
    depth loses above some level, and shallower depths are the best the busier it is."""
    surface = simple((1, 8, 64))
    own = depths(surface)
    history = told(surface, [surface.baseline, surface.baseline, own[2]], 0.005)
    found = by_level(SpeedForecaster(), surface.spec, history, own, [1, 2, 4, 8, 32, 128, 512, 1024])
    assert [level.users for level in found] == [1, 2, 4, 8, 32, 128, 512, 1024]
    best = [level.best.speculation.depth for level in found]
    assert best == sorted(best, reverse=True)

    def true_gain(users: int, k: int) -> float:
        tokens = sum(0.8**i for i in range(k + 1))
        return tokens * (1 + users / 100) / (1 + users * (1 + k) / 100 + 0.05 * k)

    for level in found[:5]:
        truth = max(true_gain(level.users, k) for k in range(1, 6))
        assert level.gain.value == pytest.approx(truth, rel=0.08)
    crossed = crossover(found).users
    exact = next(users for users in range(1, 5000) if max(true_gain(users, k) for k in range(1, 6)) < 1)
    assert crossed is not None
    assert abs(math.log(crossed / exact)) < 0.7


def test_nothing_is_said_before_anything_was_measured() -> None:
    surface = simple()
    assert by_level(SpeedForecaster(), surface.spec, told(surface, []), depths(surface), [1, 2]) == ()
