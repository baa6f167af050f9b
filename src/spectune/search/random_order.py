"""Random search: the grid in a random order, which a cut-off budget treats fairly."""

from __future__ import annotations

import random

from spectune.domain.history import History
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import CampaignSpec
from spectune.search.frame import Field, explore, propose


class RandomOrder:
    """See the module. Depends on its seed, spec and history alone: a resumed campaign goes on in the same order.

    Args:
        seed: of the order.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def propose(self, spec: CampaignSpec, history: History) -> Proposal | Stop:
        return propose(spec, history, self._next)

    def _next(self, field: Field) -> Proposal | None:
        order = list(field.points)
        random.Random(self._seed).shuffle(order)
        point = next(point for point in order if point.candidate.id not in field.tried)
        return explore(point, f"drawn at random (seed {self._seed})")
