"""Acceptance of drafts by position: from counts to probabilities, to depths not measured, to tokens per step.

The chance that the token at position j is accepted, given that all before it were, is logistic:

    logit a(j) = level + group + slope ln j + depth ln k + walk(j)

`group` pools sampling temperatures (or kinds of text) partially, `depth` lets acceptance at the same position change
with the number drafted, and `walk` is a random walk over positions that goes on where counts end, so that the
spread grows with every position that nobody has measured. All have priors; counts outweigh them quickly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from spectune.domain.measurement import Acceptance
from spectune.predict.fit import Block, Floats, Posterior, fit

WALKED: Final = 12
"""Positions with a deviation of their own; later ones share the last."""

FIXED: Final = 3
"""level, slope, depth."""

PRIOR_MEAN: Final = (1.0, -0.1, -0.05)
PRIOR_SD: Final = (1.2, 0.5, 0.12)
GROUP_SD: Final = 0.6
WALK_SD: Final = 0.2
"""Standard deviations on the logit scale. 1.0 is 73 % accepted; heads and draft models mostly lie in 0 to 2."""

OVERDISPERSION: Final = 0.04
"""Spread of a logit between two measurements beyond counting: other prompts, other samples."""

_LARGEST = 1024
"""Positions beyond this are not summed: nothing is accepted there any more."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Acceptance as counted at one depth in one group.

    Attributes:
        source: the earlier campaign that it is from; "" for this one's own.
        drift: standard deviation, logit, by which all of a source may differ from today.
    """

    depth: int
    group: int
    acceptance: Acceptance
    source: str = ""
    drift: float = 0.0


def prior(groups: int) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the parameters: FIXED, one a group, and the steps of the walk."""
    mean = np.concatenate([PRIOR_MEAN, np.zeros(groups + WALKED - 1)])
    sd = np.concatenate([PRIOR_SD, np.full(groups, GROUP_SD), np.full(WALKED - 1, WALK_SD)])
    return mean, sd


def logits(parameters: Floats, groups: int, depth: int, group: int) -> Floats:
    """Logits of conditional acceptance at positions 1..depth: (sets of parameters, depth)."""
    position = np.arange(1, depth + 1, dtype=np.float64)
    level = parameters[:, 0] + parameters[:, FIXED + group] + parameters[:, 2] * np.log(depth)
    walk = np.cumsum(parameters[:, FIXED + groups :], axis=1)
    walk = np.hstack([np.zeros((len(parameters), 1)), walk])[:, np.minimum(np.arange(depth), WALKED - 1)]
    found: Floats = level[:, None] + parameters[:, 1:2] * np.log(position) + walk
    return found


def tokens_per_step(conditional: Floats, drafting: float | Floats = 1.0) -> Floats:
    """Expected tokens emitted per verify step, the target's own token included.

    1 + sum over j of a(1) a(2) ... a(j): equation 1 of Leviathan, Kalman and Matias (2023, "Fast Inference from
    Transformers via Speculative Decoding"), with an acceptance for each position in place of a constant one.

    Args:
        conditional: chance of acceptance at each position (last axis) given that all before it were accepted.
        drafting: share of steps that have a draft; below 1 for drafts looked up in text.
    """
    expected: Floats = 1 + np.asarray(drafting) * np.cumprod(conditional, axis=-1).sum(axis=-1)
    return expected


def accepted_per_draft(parameters: Floats, groups: int, depth: int, group: int) -> Floats:
    """Expected tokens accepted of one draft, for each set of parameters."""
    return tokens_per_step(sigmoid(logits(parameters, groups, min(depth, _LARGEST), group))) - 1


def sigmoid(x: Floats) -> Floats:
    found: Floats = 1 / (1 + np.exp(-np.clip(x, -40, 40)))
    return found


def block(counted: Sequence[Counted], groups: int) -> Block:
    """What counts say about the parameters. Where the engine tells positions, each position's conditional share is an
    observation; else the mean number accepted of a draft is."""
    by_position = [(c, *_conditional(c)) for c in counted if usable_positions(c)]
    in_total = [c for c in counted if not usable_positions(c)]
    seen = [value for _, values, _ in by_position for value in values]
    spread = [variance for _, _, variances in by_position for variance in variances]
    totals = [_total(c) for c in in_total]

    def function(parameters: Floats) -> Floats:
        parts = [logits(parameters, groups, c.depth, c.group)[:, : len(values)] for c, values, _ in by_position]
        parts += [np.log(0.02 + accepted_per_draft(parameters, groups, c.depth, c.group))[:, None] for c in in_total]
        return np.hstack(parts) if parts else np.zeros((len(parameters), 0))

    owners = [c for c, values, _ in by_position for _ in values] + in_total
    drift = np.array([owner.drift for owner in owners], dtype=np.float64)
    same = np.equal.outer([owner.source for owner in owners], [owner.source for owner in owners])
    return Block(
        function,
        np.array(seen + [value for value, _ in totals], dtype=np.float64),
        np.diag(np.array(spread + [variance for _, variance in totals], dtype=np.float64))
        + same * np.multiply.outer(drift, drift),
    )


def usable_positions(counted: Counted) -> bool:
    """Whether shares by position are there and make sense: one a position, none above the one before it."""
    shares = counted.acceptance.per_position
    falling = all(0 <= b <= a + 1e-9 for a, b in zip((1.0, *shares), shares, strict=False))
    return bool(shares) and len(shares) <= counted.depth and falling


def _conditional(counted: Counted) -> tuple[list[float], list[float]]:
    """Empirical logit and its variance at each position (Haldane-Anscombe correction of one half)."""
    acceptance, values, variances = counted.acceptance, [], []
    reached = float(acceptance.drafts)
    for share in acceptance.per_position:
        accepted = acceptance.drafts * share
        if reached < 0.5:
            break
        hits, misses = accepted + 0.5, max(0.0, reached - accepted) + 0.5
        values.append(float(np.log(hits / misses)))
        variances.append(1 / hits + 1 / misses + OVERDISPERSION**2)
        reached = accepted
    return values, variances


def _total(counted: Counted) -> tuple[float, float]:
    """Log of the mean accepted per draft and its variance; a draft's number of accepted tokens varies by at most half
    its depth."""
    acceptance = counted.acceptance
    drafts = max(1, min(acceptance.drafts, 10**9))
    mean = min(float(counted.depth), max(0.0, acceptance.accepted / drafts))
    scatter = mean * (counted.depth - mean) + 0.25
    return float(np.log(0.02 + mean)), scatter / drafts / (0.02 + mean) ** 2 + OVERDISPERSION**2


@dataclass(frozen=True, slots=True)
class AcceptanceFit:
    """Acceptance of one method, fitted to counts alone. `groups` names the groups in order."""

    posterior: Posterior
    groups: tuple[str, ...]

    def conditional(self, depth: int, group: str, z: float = 1.645) -> tuple[Floats, Floats, Floats]:
        """Conditional acceptance at positions 1..depth with the bounds of its interval (z standard deviations of the
        logit, the spread between measurements included)."""
        at = self.posterior.mean[None, :]
        place, count = self.groups.index(group), len(self.groups)
        center = logits(at, count, depth, place)[0]
        slope = logits(np.eye(at.shape[1]), count, depth, place).T
        sd = np.sqrt(np.einsum("ij,jk,ik->i", slope, self.posterior.covariance, slope) + OVERDISPERSION**2)
        return sigmoid(center), sigmoid(center - z * sd), sigmoid(center + z * sd)

    def tokens(self, depth: int, group: str, drafting: float = 1.0) -> float:
        """Expected tokens per verify step at any depth."""
        return float(tokens_per_step(self.conditional(depth, group)[0], drafting))


def fit_acceptance(seen: Sequence[tuple[int, str, Acceptance]]) -> AcceptanceFit:
    """Fits acceptance by position to counts.

    Args:
        seen: (depth drafted, group, counts); a group is a temperature, a kind of text, or both.
    """
    groups = tuple(dict.fromkeys(group for _, group, _ in seen))
    counted = [
        Counted(min(depth, _LARGEST), groups.index(group), acceptance)
        for depth, group, acceptance in seen
        if depth > 0 and acceptance.drafts > 0
    ]
    return AcceptanceFit(fit(*prior(len(groups)), [block(counted, len(groups))] if counted else []), groups)
