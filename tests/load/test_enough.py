"""The stop rule: not by luck, not too soon, and not late on a quiet server."""

from __future__ import annotations

import numpy as np
import pytest

from bench.loadgen import coverage
from spectune.load import intervals
from spectune.load.enough import Enough
from spectune.load.intervals import Floats


def stops_after(tokens: Floats, seconds: Floats, precision: float = 0.02) -> int | None:
    enough = Enough(precision, 4)
    for n in range(1, len(tokens) + 1):
        if enough.is_due(n) and enough.look(tokens[:n], seconds[:n]):
            return n
    return None


def series(cv: float, n: int = 1000, seed: int = 1) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    tokens = rng.integers(50, 200, n).astype(float)
    return tokens, tokens / 100 * np.exp(cv * rng.standard_normal(n))


def test_a_quiet_server_is_known_at_once() -> None:
    assert stops_after(*series(0.001)) == 6


@pytest.mark.parametrize("seed", range(20))
def test_no_luck_of_few_requests_ends_a_noisy_measurement(seed: int) -> None:
    stopped = stops_after(*series(0.10, 4000, seed))
    assert stopped is not None
    assert stopped >= 100


def test_what_is_too_noisy_is_never_enough() -> None:
    assert stops_after(*series(0.8)) is None


def test_a_trend_is_never_enough() -> None:
    tokens, seconds = series(0.01)
    assert stops_after(tokens, seconds * np.linspace(1, 3, len(tokens))) is None


def test_nothing_and_answers_without_decoding_are_not_enough() -> None:
    enough = Enough(0.02, 4)
    assert not enough.is_due(3)
    assert enough.is_due(4)
    assert not enough.look(np.array([]), np.array([]))
    assert not enough.is_due(5)


def test_many_requests_between_two_looks_do_not_make_the_next_one_early() -> None:
    enough = Enough(0.02, 4)
    enough.look(*series(0.001, 100))
    assert not enough.is_due(149)
    assert enough.is_due(150)


@pytest.mark.parametrize("weather", [w for w in coverage.WEATHERS if w.claimed][:3], ids=lambda w: str(w.name))
def test_the_interval_at_the_end_contains_the_truth_as_often_as_it_says(weather: coverage.Weather) -> None:
    """A coarse look; bench.loadgen.coverage has the experiment."""
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(60):
        tokens, seconds, truth = coverage.requests(rng, weather, 0.05)
        n, _ = coverage.stop(tokens, seconds)
        estimate = intervals.ratio(tokens[:n], seconds[:n])
        assert estimate is not None
        hits += estimate.low <= truth <= estimate.high
    assert hits >= 51
