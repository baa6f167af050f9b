"""The room of depths not tried yet, read off those that were."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Capacity
from spectune.domain.history import History
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Trial
from spectune.predict.points import capacity_of, family_of

ROUNDING: Final = 1e-9
"""A whole number that comes out of two reciprocals may lie a hair below itself."""

SAME: Final = 0.05
"""Two campaigns have the same room where it differs by no larger share: free memory at a start does."""


def interpolated(spec: CampaignSpec, history: History, candidate: Candidate) -> Capacity | None:
    """Capacity as measured, else read off a straight line through the nearest measured depths of the same method (no
    speculation being depth 0); None where no trial tells any. Tokens are on that line themselves, of requests it is the
    reciprocal: what each of them keeps grows by as much with every depth.

    An earlier campaign tells where this one does not, if nothing is known to differ and both have the same room at the
    depths that both have measured.
    """
    family, depth = family_of(candidate), candidate.speculation.depth
    alone = [trial for trial in history.finished if trial.valid and trial.beside is None]
    own = _known(alone, candidate)
    known = own
    for prior in history.opened.priors:
        told = {} if prior.differs else _known([kept.as_trial(-1) for kept in prior.trials], candidate)
        if all(_alike(told[at], own[at]) for at in told.keys() & own.keys()):
            known = {**told, **known}
    if family is None:
        known = {at: capacity for at, capacity in known.items() if at == 0}
    if depth in known:
        return known[depth]
    shares = {at: 1 / c.max_running for at, c in known.items() if c.max_running}
    share = _line(shares, depth)
    # A share that falls through nothing with depth tells of two depths that differ by something else.
    running = max(1, math.floor(1 / max(share, min(shares.values())) + ROUNDING)) if share is not None else None
    line = _line({at: c.kv_tokens for at, c in known.items() if c.kv_tokens is not None}, depth)
    tokens = max(1, math.floor(line)) if line is not None else None
    return Capacity(kv_tokens=tokens, max_running=running) if running is not None or tokens is not None else None


def _known(trials: Iterable[Trial], candidate: Candidate) -> dict[int, Capacity]:
    """Depth -> room, of the candidate's family and of no speculation, with the same other settings."""
    family, known = family_of(candidate), {}
    for trial in trials:
        own = family_of(trial.candidate)
        if dict(trial.candidate.knobs) == dict(candidate.knobs) and (own == family or own is None):
            known[trial.candidate.speculation.depth if own else 0] = capacity_of(trial)
    return known


def _alike(one: Capacity, other: Capacity) -> bool:
    pairs = ((one.kv_tokens, other.kv_tokens), (one.max_running, other.max_running))
    return all(a == b or (a is not None and b is not None and abs(a - b) <= SAME * max(a, b)) for a, b in pairs)


def _line(known: Mapping[int, float], depth: int) -> float | None:
    told = sorted(known.items())
    if not told:
        return None
    if len(told) == 1:
        return told[0][1]
    near = sorted(sorted(told, key=lambda pair: abs(pair[0] - depth))[:2])
    (left, low), (right, high) = near
    return low + (high - low) * (depth - left) / (right - left)
