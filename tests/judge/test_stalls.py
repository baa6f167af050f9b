"""Stalled requests among repetitions."""

from __future__ import annotations

import numpy as np

from spectune.judge.stalls import without_stalls


def scattered(trials: int, prompts: int = 12) -> np.ndarray:
    rng = np.random.default_rng(1)
    levels, difficulty = rng.normal(0, 0.3, (trials, 1)), rng.normal(0, 0.5, prompts)
    return np.asarray(levels + difficulty + rng.normal(0, 0.01, (trials, prompts)))


def test_one_stalled_repetition_is_pulled_in_and_the_rest_left_alone() -> None:
    clean = scattered(5)
    stalled = clean.copy()
    stalled[2, 4] -= 0.7
    tamed = without_stalls(stalled, ["a"] * 5)
    assert abs(tamed[2, 4] - clean[2, 4]) < 0.1
    others = np.ones(clean.shape, dtype=bool)
    others[2, 4] = False
    assert np.abs(tamed - clean)[others].max() < 0.03


def test_slow_trials_and_slow_prompts_are_no_stalls() -> None:
    values = scattered(4)
    values[1] -= 2.0
    values[:, 3] -= 3.0
    np.testing.assert_allclose(without_stalls(values, ["a"] * 4), values, atol=0.02)


def test_two_trials_can_not_tell_which_is_odd() -> None:
    values = scattered(2)
    values[0, 0] -= 5.0
    np.testing.assert_array_equal(without_stalls(values, ["a", "a"]), values)


def test_missing_values_stay_missing_and_candidates_are_kept_apart() -> None:
    values = scattered(7)
    values[3:] += 1.0
    values[0, 5] = np.nan
    values[4, :] = np.nan
    tamed = without_stalls(values, ["a"] * 3 + ["b"] * 4)
    np.testing.assert_array_equal(np.isnan(tamed), np.isnan(values))
    np.testing.assert_allclose(tamed, values, atol=0.02)


def test_equal_values_are_left_alone() -> None:
    values = np.zeros((4, 6))
    values[0, 0] = 1.0
    np.testing.assert_array_equal(without_stalls(values, ["a"] * 4), values)
