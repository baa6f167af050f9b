"""The room of depths not tried yet, read off those that were."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Capacity
from spectune.domain.history import History
from spectune.domain.spec import CampaignSpec
from spectune.predict.points import capacity_of, family_of


def interpolated(spec: CampaignSpec, history: History, candidate: Candidate) -> Capacity | None:
    """Capacity as measured, else read off a straight line through the nearest measured depths of the same method (no
    speculation being depth 0); None where no trial tells any."""
    family, depth = family_of(candidate), candidate.speculation.depth
    known: dict[int, Capacity] = {}
    for trial in history.finished:
        same = trial.valid and trial.beside is None and dict(trial.candidate.knobs) == dict(candidate.knobs)
        own = family_of(trial.candidate)
        if same and (own == family or own is None):
            known[trial.candidate.speculation.depth if own else 0] = capacity_of(trial)
    if family is None:
        known = {at: capacity for at, capacity in known.items() if at == 0}
    if depth in known:
        return known[depth]
    running = _line({at: c.max_running for at, c in known.items()}, depth)
    tokens = _line({at: c.kv_tokens for at, c in known.items()}, depth)
    return Capacity(kv_tokens=tokens, max_running=running) if running is not None or tokens is not None else None


def _line(known: Mapping[int, int | None], depth: int) -> int | None:
    told = sorted((at, value) for at, value in known.items() if value is not None)
    if not told:
        return None
    if len(told) == 1:
        return told[0][1]
    near = sorted(sorted(told, key=lambda pair: abs(pair[0] - depth))[:2])
    (left, low), (right, high) = near
    return max(1, int(np.floor(low + (high - low) * (depth - left) / (right - left))))
