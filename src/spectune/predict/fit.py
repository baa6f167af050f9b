"""Bayesian least squares: normal priors, observations with correlated errors, and predictions that know their spread.

The estimate is the posterior mode, found by damped Gauss-Newton steps; its covariance is Laplace's approximation.
Where observations share a smooth misfit with what is predicted, the prediction is corrected by it (Kennedy and O'Hagan
2001, "Bayesian calibration of computer models": model + Gaussian process + noise).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]
"""(sets of parameters, parameters) -> (sets of parameters, values). Must be finite within 10 prior deviations."""

_STEPS = 40
_REACH = 8.0
"""Parameters stay within so many prior standard deviations."""


@dataclass(frozen=True, slots=True)
class Block:
    """Observations of one kind.

    Attributes:
        function: what the model says about them.
        seen: the values.
        covariance: of seen - function at the true parameters.
    """

    function: Function
    seen: Floats
    covariance: Floats


@dataclass(frozen=True, slots=True)
class Posterior:
    """Attributes:
    mean: the most probable parameters.
    covariance: of the parameters.
    misfit: sum of squares at the mode, in standard deviations, the prior's included; on average as large as the number
        of observations where errors and priors are as large as was said.
    """

    mean: Floats
    covariance: Floats
    misfit: float = 0.0


def slopes(function: Function, at: Floats) -> tuple[Floats, Floats]:
    """Value and Jacobian (values x parameters), by forward differences."""
    step = 1e-5
    moved = np.vstack([at, at + step * np.eye(len(at))])
    values = function(moved)
    return values[0], (values[1:] - values[0]).T / step


def fit(prior_mean: Floats, prior_sd: Floats, blocks: Sequence[Block]) -> Posterior:
    """The posterior of the parameters. With no blocks, the prior."""
    roots = [np.linalg.cholesky(block.covariance) for block in blocks]

    def residuals(at: Floats) -> tuple[Floats, Floats]:
        rows, columns = [(at - prior_mean) / prior_sd], [np.diag(1 / prior_sd)]
        for block, root in zip(blocks, roots, strict=True):
            value, slope = slopes(block.function, at)
            rows.append(solve_triangular(root, value - block.seen, lower=True))
            columns.append(solve_triangular(root, slope, lower=True))
        return np.concatenate(rows), np.vstack(columns)

    at, damping = prior_mean.copy(), 1e-3
    misfit, slope = residuals(at)
    for _ in range(_STEPS):
        square = slope.T @ slope
        step = np.linalg.solve(square + damping * np.diag(np.diag(square)), -slope.T @ misfit)
        tried = np.clip(at + step, prior_mean - _REACH * prior_sd, prior_mean + _REACH * prior_sd)
        new_misfit, new_slope = residuals(tried)
        gained = float(misfit @ misfit - new_misfit @ new_misfit)
        if gained < 0 or not np.isfinite(gained):
            damping = max(damping, 1e-4) * 8
            if damping > 1e6:
                break
            continue
        at, misfit, slope, damping = tried, new_misfit, new_slope, damping / 5
        if gained < 1e-4:
            break
    return Posterior(at, np.asarray(np.linalg.inv(slope.T @ slope), dtype=np.float64), float(misfit @ misfit))


@dataclass(frozen=True, slots=True)
class Prediction:
    """Jointly normal values.

    Attributes:
        mean: of each.
        covariance: of all.
    """

    mean: Floats
    covariance: Floats

    def combine(self, weights: Floats) -> tuple[float, float]:
        """Mean and standard deviation of a weighted sum."""
        return float(weights @ self.mean), math.sqrt(max(0.0, float(weights @ self.covariance @ weights)))


def predict(posterior: Posterior, function: Function, block: Block, cross: Floats, own: Floats) -> Prediction:
    """What `function` will give, corrected by the misfit that it shares with the block.

    Args:
        cross: covariance of the misfit between what is predicted (rows) and what was observed (columns).
        own: covariance of the misfit among what is predicted.
    """
    value, slope = slopes(function, posterior.mean)
    if not len(block.seen):
        return Prediction(value, own + slope @ posterior.covariance @ slope.T)
    fitted, fitted_slope = slopes(block.function, posterior.mean)
    gain: Floats = cho_solve(cho_factor(block.covariance), cross.T).T
    left = slope - gain @ fitted_slope
    covariance = own - gain @ cross.T + left @ posterior.covariance @ left.T
    return Prediction(value + gain @ (block.seen - fitted), covariance)


def outliers(posterior: Posterior, block: Block) -> Floats:
    """How far each observation lies from what the others say, in its own standard deviations."""
    fitted = block.function(posterior.mean[None, :])[0]
    precision = np.linalg.inv(block.covariance)
    distances: Floats = np.abs(precision @ (block.seen - fitted)) / np.sqrt(np.diag(precision))
    return distances
