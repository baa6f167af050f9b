"""Speed as tokens per step over seconds per step, fitted to all speeds and counts of a campaign at once.

Per-user speed is tokens_per_step / t(batch, k), less what prompts of others take. The target's cost is shared by all
methods; each family (candidates that differ in depth alone) has its draft cost and its acceptance. What the formulas
miss is a smooth misfit of a few per cent over tokens in a pass and depth, plus one of each depth by itself, so that
measured depths are reproduced and others are no more certain than such formulas deserve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from spectune.predict import acceptance, cost
from spectune.predict.fit import Block, Floats, Posterior, Prediction, fit, outliers, predict
from spectune.predict.points import UNTOLD_SD, Family, Point, Scatter, Speed
from spectune.predict.priors import drifted

VERIFY_SD, VERIFY_REACH = 0.012, 0.7
"""Misfit of the verify cost, log speed, and how far it reaches in ln(tokens per pass)."""

DEPTH_SD, DEPTH_REACH = 0.02, 0.6
"""Misfit of a family over ln(depth): what the acceptance curve and the draft cost miss."""

SINGLE_SD = 0.02
"""Misfit of one depth alone: kernels and captured graphs favour some sizes. With it, from two depths of a real
llama-server (docs/search.md) 87 % of the others lay within their 90 % intervals; with 0.013 it was 70 %."""

BATCH_REACH: Final = 1.5
"""How far the misfits of a family reach in ln(batch)."""

OTHER_GROUP: Final = 0.7
"""How much of a family's misfit at one temperature holds at another."""

STRAIN_DF, LEAST_STRAIN = 10.0, 0.8
"""Observations that the expected misfit is worth against the one found (Birge ratio with a prior), and its floor: a fit
that looks too good is luck."""

FAR: Final = 3.0
"""Standard deviations beyond which an observation's weight is cut (Huber)."""


@dataclass(frozen=True)
class SpeedModel:
    """A fitted model.

    Attributes:
        families: with their share of steps that have a draft; the order of the parameters.
        groups: of sampling.
        posterior: of the parameters: the target's, then each family's cost and acceptance.
        seen: the speeds behind it.
        block: those speeds as observations.
    strain: how much larger than expected the misfit to this machine is; scales the variance of predictions.
    """

    families: Mapping[Family, float]
    groups: tuple[str, ...]
    posterior: Posterior
    seen: tuple[Speed, ...]
    block: Block
    strain: float

    def predict(self, points: Sequence[Point]) -> Prediction:
        """Log per-user speeds, jointly, without the noise of another measurement. Every point's family and group must
        be known to the model."""
        function = _Speeds(points, self.families, self.groups)
        measured = [speed.point for speed in self.seen]
        cross, own = misfit(points, measured), misfit(points, points)
        found = predict(self.posterior, function, self.block, cross, own)
        return Prediction(found.mean, found.covariance * self.strain)


class _Speeds:
    """The function from parameters to log speeds at given points."""

    def __init__(self, points: Sequence[Point], families: Mapping[Family, float], groups: Sequence[str]) -> None:
        self._order, self._groups = list(families), list(groups)
        shares = list(families.values())
        place = [-1 if point.family is None else self._order.index(point.family) for point in points]
        self._family = np.array(place, dtype=np.intp)
        share = np.array([shares[i] if i >= 0 else 1.0 for i in place])
        topk = np.array([point.family.topk if point.family else 1 for point in points], dtype=np.float64)
        self._batch = np.array([point.batch for point in points], dtype=np.float64)
        self._passes = share * np.array([point.depth if point.family else 0 for point in points])
        self._width = self._passes * topk
        self._share = share
        self._stall_s = np.array([point.stall_s for point in points], dtype=np.float64)
        group = [self._groups.index(point.group) for point in points]
        keys = [(f, p.depth, g) for f, p, g in zip(place, points, group, strict=True)]
        self._drafts = sorted({key for key in keys if key[0] >= 0})
        self._draft_of = np.array([self._drafts.index(key) if key[0] >= 0 else -1 for key in keys], dtype=np.intp)

    @cached_property
    def _span(self) -> int:
        return cost.OWN + acceptance.FIXED + len(self._groups) + acceptance.WALKED - 1

    def __call__(self, parameters: Floats) -> Floats:
        sets, count = len(parameters), len(self._groups)
        own = parameters[:, cost.SHARED :].reshape(sets, len(self._order), self._span)
        tokens = np.ones((sets, len(self._batch)))
        if self._drafts:
            accepted = np.stack(
                [acceptance.accepted_per_draft(own[:, f, cost.OWN :], count, k, g) for f, k, g in self._drafts], axis=1
            )
            tokens = np.where(self._draft_of >= 0, 1 + self._share * accepted[:, self._draft_of], 1.0)
        costs = own[:, :, : cost.OWN]
        per_point = costs[:, self._family] if self._order else np.zeros((sets, len(self._batch), cost.OWN))
        shared = parameters[:, : cost.SHARED]
        log_step = cost.log_step_s(shared, per_point, self._batch, self._passes, self._width)
        found: Floats = -cost.log_token_s(shared, log_step, tokens, self._stall_s)
        return found


def misfit(left: Sequence[Point], right: Sequence[Point]) -> Floats:
    """Covariance of what the formulas miss, between two sets of points."""
    if not left or not right:
        return np.zeros((len(left), len(right)))

    def apart(values: tuple[list[float], list[float]]) -> Floats:
        distance: Floats = np.subtract.outer(np.array(values[0]), np.array(values[1])) ** 2
        return distance

    tokens = apart(([_log_tokens(p) for p in left], [_log_tokens(p) for p in right]))
    batch = apart(([float(np.log(p.batch)) for p in left], [float(np.log(p.batch)) for p in right]))
    depth = apart(([float(np.log1p(p.depth)) for p in left], [float(np.log1p(p.depth)) for p in right]))
    names = {family: i for i, family in enumerate({p.family for p in (*left, *right)})}
    same = np.equal.outer([names[p.family] for p in left], [names[p.family] for p in right])
    group = np.where(np.equal.outer([p.group for p in left], [p.group for p in right]), 1.0, OTHER_GROUP)
    alike = DEPTH_SD**2 * np.exp(-depth / 2 / DEPTH_REACH**2) + SINGLE_SD**2 * (depth == 0)
    of_family = same * group * alike * np.exp(-batch / 2 / BATCH_REACH**2)
    found: Floats = VERIFY_SD**2 * np.exp(-tokens / 2 / VERIFY_REACH**2) + of_family
    return found


def _log_tokens(point: Point) -> float:
    width = point.depth * point.family.topk if point.family else 0
    return float(np.log(point.batch * (1 + width)))


def fit_speed(
    seen: Sequence[Speed],
    counted: Sequence[tuple[Family, acceptance.Counted]],
    families: Mapping[Family, float],
    groups: Sequence[str],
    scatter: Scatter,
) -> SpeedModel:
    """Fits target, drafts and acceptance together; observations far from all others lose weight.

    Args:
        seen: at least one speed.
        counted: acceptance counts with their families.
        families: with the share of steps that have a draft.
        groups: every group that occurs or will be asked for.
    """
    names = tuple(families)
    floor = 1 / np.exp(max(speed.log for speed in seen))
    priors = [cost.shared_prior(float(floor))]
    for family in names:
        priors += [cost.own_prior(family.method), acceptance.prior(len(groups))]
    mean = np.concatenate([prior[0] for prior in priors])
    sd = np.concatenate([prior[1] for prior in priors])
    blocks = [_counts(names, family, counted, len(groups)) for family in names]
    blocks = [block for block in blocks if len(block.seen)]
    points = [speed.point for speed in seen]
    block = Block(
        _Speeds(points, families, groups),
        np.array([speed.log for speed in seen]),
        misfit(points, points) + noise(seen, scatter),
    )
    posterior = fit(mean, sd, [*blocks, block])
    far = outliers(posterior, block)
    if bool((far > FAR).any()):
        extra = np.where(far > FAR, (far / FAR) ** 2 - 1, 0.0) * np.diag(block.covariance)
        block = Block(block.function, block.seen, block.covariance + np.diag(extra))
        posterior = fit(mean, sd, [*blocks, block])
    count = sum(len(each.seen) for each in [*blocks, block])
    strain = max(LEAST_STRAIN, (STRAIN_DF + posterior.misfit) / (STRAIN_DF + count))
    return SpeedModel(families, tuple(groups), posterior, tuple(seen), block, strain)


def noise(seen: Sequence[Speed], scatter: Scatter) -> Floats:
    """Covariance of measured speeds around the true ones of today."""
    trials = [speed.trial for speed in seen]
    together = np.equal.outer(trials, trials)
    within = [scatter.cell + (UNTOLD_SD**2 if speed.variance is None else 0.0) for speed in seen]
    found: Floats = scatter.deployment * together + np.diag(within) + drifted(seen)
    return found


def _counts(
    names: Sequence[Family], family: Family, counted: Sequence[tuple[Family, acceptance.Counted]], groups: int
) -> Block:
    """Counts of one family, as a function of all parameters."""
    inner = acceptance.block([count for owner, count in counted if owner == family], groups)
    span = cost.OWN + acceptance.FIXED + groups + acceptance.WALKED - 1
    first = cost.SHARED + names.index(family) * span + cost.OWN
    last = first + span - cost.OWN
    return Block(lambda parameters: inner.function(parameters[:, first:last]), inner.seen, inner.covariance)
