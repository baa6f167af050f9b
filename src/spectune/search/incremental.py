"""The way it is done by hand: one step further while it pays, else back and on to the next method.

It stops at the first step that does not pay, and so never sees an optimum behind a dip.
"""

from __future__ import annotations

from itertools import groupby

from spectune.domain.candidate import Speculation
from spectune.domain.history import History
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import CampaignSpec
from spectune.search.frame import Field, Point, explore, propose


class Incremental:
    """See the module. Depends on spec and history alone. A step pays when its estimated speed is above the best of its
    method so far, the first step when it is above that without the method; proven or not, as by hand. Where the
    service uses the method already, steps go deeper from there, and if the first of them does not pay, shallower."""

    def propose(self, spec: CampaignSpec, history: History) -> Proposal | Stop:
        return propose(spec, history, _next)


def _next(field: Field) -> Proposal | None:
    for _, group in groupby(field.points, key=lambda point: point.space):
        for walk in _walks(tuple(group), field.base.speculation):
            step, paid = _walk(walk, field)
            if step is not None:
                return step
            if paid:
                break
    return None


def _walks(points: tuple[Point, ...], start: Speculation) -> tuple[tuple[Point, ...], ...]:
    """The ways to go within one method, nearest step first."""
    if not points or points[0].method != start.method:
        return (points,)
    deeper = tuple(point for point in points if point.candidate.speculation.depth >= start.depth)
    return deeper, tuple(point for point in reversed(points) if point not in deeper)


def _walk(points: tuple[Point, ...], field: Field) -> tuple[Proposal | None, bool]:
    """The next step of a walk, None where it has ended; and whether any step of it paid."""
    best, paid = field.scores.get(field.base.id, 1.0), False
    for point in points:
        if point.candidate.id not in field.tried:
            return explore(point, "one step further" if paid else "first step"), paid
        # A trial that failed has no score, and ends the walk.
        score = field.scores.get(point.candidate.id, 0.0)
        if score <= best:
            break
        best, paid = score, True
    return None, paid
