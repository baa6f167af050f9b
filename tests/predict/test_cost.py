from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from spectune.domain.candidate import Method
from spectune.predict.cost import log_step_s, own_prior, shared_prior
from spectune.predict.fit import Floats

FLOOR = 0.01


def seconds(batch: float, depth: float, *, method: Method = Method.MTP, **shared: float) -> float:
    """One step at the prior's mean, with some of the target's parameters set."""
    own, target = own_prior(method)[0], shared_prior(FLOOR)[0].copy()
    for place, name in enumerate(("floor", "knee", "bend", "row")):
        if name in shared:
            target[place] = np.log(shared[name])
    one: Floats = np.array([batch])
    k: Floats = np.array([depth])
    return float(np.exp(log_step_s(target[None, :], own[None, None, :], one, k, k))[0, 0])


def test_few_tokens_cost_the_floor() -> None:
    assert seconds(1, 0, knee=1e6, row=1e-9) == pytest.approx(FLOOR, rel=1e-3)


def test_far_beyond_the_knee_time_grows_with_tokens() -> None:
    one, two = (seconds(b, 0, knee=10, bend=1, row=1e-9) for b in (10_000, 20_000))
    assert two / one == pytest.approx(2, rel=1e-2)


def test_at_the_knee_a_step_takes_twice_the_floor() -> None:
    assert seconds(64, 0, knee=64, row=1e-9) == pytest.approx(2 * FLOOR, rel=1e-6)


@pytest.mark.parametrize("batch", [1, 8, 64])
def test_every_draft_costs(batch: int) -> None:
    steps = [seconds(batch, k) for k in range(9)]
    assert all(b > a for a, b in pairwise(steps))


def test_drafts_of_a_model_cost_more_than_looking_up() -> None:
    assert seconds(1, 4, method=Method.DRAFT) > seconds(1, 4, method=Method.MTP) > seconds(1, 4, method=Method.NGRAM)


def test_no_parameters_within_reach_overflow() -> None:
    mean, sd = shared_prior(FLOOR)
    own_mean, own_sd = own_prior(Method.DRAFT)
    for sign in (-8, 8):
        step = log_step_s(
            (mean + sign * sd)[None, :],
            (own_mean + sign * own_sd)[None, None, :],
            np.array([1e6]),
            np.array([64.0]),
            np.array([64.0]),
        )
        assert np.isfinite(step).all()
