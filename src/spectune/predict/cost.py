"""What a verify step costs: the target's pass over batch x (k+1) tokens, the drafts, and what speculation adds.

    t(batch, k) = floor (1 + (n / knee)^bend + batch row + [k > 0] (extra + k draft) (1 + batch draft_row))
    n = batch (1 + k)                                            tokens that the target verifies in one pass

A user's token takes t / tokens per step, and a part `stalled` of what the prompts of the others hold it up: whoever
shares a server waits while prompts of requests that begin are read, however many tokens a step brings.

`floor` is the time to read the weights once; `knee` is the number of tokens at which computing takes as long again;
`bend` is 1 where computing grows with tokens, below 1 where experts of a mixture are still being woken, above 1 where
a kernel runs out of tiles. `row` is what each sequence costs however many tokens it verifies (its KV cache, sampling).
A draft pass costs `draft` of the floor. All are positive by construction (logarithms are fitted) and have wide priors
that hold from two CPU cores to eight GPUs. The split into verifying and drafting follows section 3.3 of Leviathan,
Kalman and Matias (2023) and its extension to batches by Liu et al. (2024, "Optimizing Speculative Decoding for Serving
Large Language Models Using Goodput").
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spectune.domain.candidate import Method
from spectune.predict.fit import Floats

SHARED: Final = 5
"""log of floor, knee, bend, row, stalled: of the target, whatever drafts."""

OWN: Final = 3
"""log of draft, draft_row, extra: of the method."""

_KNEE, _BEND, _ROW = (np.log(50.0), 1.8), (np.log(0.95), 0.22), (np.log(0.006), 1.2)
_STALLED = (np.log(0.6), 0.6)
"""Of the time to a lone user's first token: it holds more than the prompt, and prompts may be read together."""
_DRAFT_ROW, _EXTRA = (np.log(0.015), 1.7), (np.log(0.05), 1.5)
"""`extra` is wide: about 0.3 of the floor was measured on SGLang with H200s and on llama.cpp with CPUs."""
_DRAFT_COST: Final = {
    Method.DRAFT: 0.12,
    Method.MTP: 0.05,
    Method.EAGLE: 0.05,
    Method.EAGLE3: 0.05,
    Method.DFLASH: 0.01,
}
_LOOKED_UP = 0.002
"""Cost of a drafted token against a pass of the target, before anything was measured; looking up is nearly free."""


def shared_prior(floor_s: float) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the target's parameters.

    Args:
        floor_s: a first guess of the seconds of one step at the lowest batch.
    """
    pairs = ((np.log(floor_s), 1.0), _KNEE, _BEND, _ROW, _STALLED)
    return np.array([mean for mean, _ in pairs]), np.array([sd for _, sd in pairs])


def own_prior(method: Method) -> tuple[Floats, Floats]:
    """Mean and standard deviation of a method's parameters."""
    pairs = ((np.log(_DRAFT_COST.get(method, _LOOKED_UP)), 0.8), _DRAFT_ROW, _EXTRA)
    return np.array([mean for mean, _ in pairs]), np.array([sd for _, sd in pairs])


def log_step_s(shared: Floats, own: Floats, batch: Floats, depth: Floats, width: Floats) -> Floats:
    """Log of a step's seconds: (sets of parameters, points).

    Args:
        shared: (sets, SHARED).
        own: (sets, points, OWN), each point's method; without meaning where depth is 0.
        batch: sequences in the step.
        depth: passes of the draft, k; with drafts at a share of steps only, their mean.
        width: tokens verified per sequence beyond the first; k for a chain.
    """
    floor, knee, bend, row, _ = (shared[:, i : i + 1] for i in range(SHARED))
    draft, draft_row, extra = (np.exp(own[:, :, i]) for i in range(OWN))
    growth = np.exp(bend) * (np.log(batch * (1 + width)) - knee)
    verify = 1 + np.exp(np.minimum(growth, 50.0)) + batch * np.exp(row)
    drafting = np.where(depth > 0, (extra + depth * draft) * (1 + batch * draft_row), 0.0)
    found: Floats = floor + np.log(verify + drafting)
    return found


def log_token_s(shared: Floats, log_step: Floats, tokens: Floats, stall_s: Floats) -> Floats:
    """Log of the seconds that a user waits for a token: (sets of parameters, points).

    Args:
        shared: (sets, SHARED).
        log_step: of a step's seconds, (sets, points).
        tokens: that a step brings a user, (sets, points).
        stall_s: seconds per token for which the prompts of others are read, at most; 0 where not known, (points,).
    """
    stalled = np.exp(shared[:, SHARED - 1 : SHARED])
    found: Floats = np.log(np.exp(log_step) / tokens + stalled * stall_s)
    return found
