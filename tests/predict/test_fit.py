from __future__ import annotations

import numpy as np
import pytest

from spectune.predict.fit import Block, Floats, Posterior, Prediction, fit, outliers, predict, slopes


def line(x: Floats) -> Floats:
    """Design of a straight line."""
    return np.stack([np.ones_like(x), x], axis=1)


def linear(design: Floats, seen: Floats, covariance: Floats) -> Block:
    return Block(lambda parameters: parameters @ design.T, seen, covariance)


def test_without_observations_the_prior_stays() -> None:
    found = fit(np.array([1.0, 2.0]), np.array([0.5, 3.0]), [])
    assert found.mean == pytest.approx([1.0, 2.0])
    assert np.sqrt(np.diag(found.covariance)) == pytest.approx([0.5, 3.0])


def test_a_linear_model_has_the_textbook_posterior() -> None:
    rng = np.random.default_rng(1)
    design, prior_sd = line(np.linspace(0, 1, 7)), np.array([2.0, 1.0])
    root = rng.normal(size=(7, 7))
    noise = root @ root.T + np.eye(7)
    seen = rng.normal(size=7)
    found = fit(np.zeros(2), prior_sd, [linear(design, seen, noise)])
    precision = design.T @ np.linalg.inv(noise) @ design + np.diag(1 / prior_sd**2)
    assert found.covariance == pytest.approx(np.linalg.inv(precision), rel=1e-4)
    assert found.mean == pytest.approx(np.linalg.solve(precision, design.T @ np.linalg.inv(noise) @ seen), abs=1e-4)


def test_a_curved_model_is_fitted() -> None:
    x = np.linspace(0, 2, 20)
    block = Block(lambda p: np.exp(p[:, :1] * x) + p[:, 1:], np.exp(0.7 * x) + 3, 1e-4 * np.eye(20))
    found = fit(np.array([0.1, 0.0]), np.array([2.0, 10.0]), [block])
    assert found.mean == pytest.approx([0.7, 3.0], abs=0.01)


def test_slopes_are_the_jacobian() -> None:
    value, slope = slopes(lambda p: np.stack([p[:, 0] * p[:, 1], np.sin(p[:, 0])], axis=1), np.array([0.5, 2.0]))
    assert value == pytest.approx([1.0, np.sin(0.5)])
    assert slope == pytest.approx(np.array([[2.0, 0.5], [np.cos(0.5), 0.0]]), abs=1e-4)


def test_predictions_follow_a_shared_misfit_and_forget_it_far_away() -> None:
    x = np.array([0.0, 1.0])
    posterior = Posterior(np.zeros(1), 1e-12 * np.eye(1))

    def flat(parameters: Floats, count: int) -> Floats:
        return np.repeat(parameters, count, axis=1)

    def near(a: Floats, b: Floats) -> Floats:
        found: Floats = np.exp(-(np.subtract.outer(a, b) ** 2) / 0.02)
        return found

    block = Block(lambda p: flat(p, 2), np.array([0.5, -0.5]), near(x, x) + 1e-6 * np.eye(2))
    at = np.array([0.0, 1.0, 30.0])
    found = predict(posterior, lambda p: flat(p, 3), block, near(at, x), near(at, at))
    assert found.mean == pytest.approx([0.5, -0.5, 0.0], abs=1e-3)
    assert np.diag(found.covariance) == pytest.approx([0, 0, 1], abs=1e-3)


def test_weighted_sums_count_what_is_shared() -> None:
    prediction = Prediction(np.array([1.0, 3.0]), np.array([[1.0, 0.9], [0.9, 1.0]]))
    assert prediction.combine(np.array([-1.0, 1.0])) == pytest.approx((2.0, np.sqrt(0.2)))


def test_an_outlier_is_seen_and_the_others_are_not() -> None:
    design = line(np.linspace(0, 1, 9))
    seen = design @ np.array([1.0, 2.0])
    seen[4] += 1
    block = linear(design, seen, 0.01 * np.eye(9))
    far = outliers(fit(np.zeros(2), np.full(2, 10.0), [block]), block)
    assert far[4] > 5
    assert np.delete(far, 4).max() < 3
