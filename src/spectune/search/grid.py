"""The grid: every depth of every method, in the order of the campaign file. Slow and complete; a yardstick."""

from __future__ import annotations

from spectune.domain.history import History
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import CampaignSpec
from spectune.search.frame import Field, explore, propose


class Grid:
    """See the module. Depends on spec and history alone."""

    def propose(self, spec: CampaignSpec, history: History) -> Proposal | Stop:
        return propose(spec, history, _next)


def _next(field: Field) -> Proposal | None:
    left = field.untried
    done = len(field.points) - len(left)
    return explore(left[0], f"{done + 1} of {len(field.points)} in the grid")
