"""A trial held against a healthy baseline as confirmation does it: what still stands against a winner."""

from __future__ import annotations

from collections.abc import Mapping

from spectune.domain.asked import Asked
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Evidence, Hardware, ListenerOwner, Seen, Service
from spectune.domain.events import CampaignOpened, Provenance
from spectune.domain.finding import Verification
from spectune.domain.history import History
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import MeasuredCell, Purpose, Trial, TrialState
from spectune.domain.workload import WorkloadInfo
from spectune.judge.fairness import unfair
from spectune.verify.gate import Gate

PAIRS = 4
"""As many as a campaign makes by default."""


def objections(
    asked: Asked, found: Verification, cells: Mapping[str, MeasuredCell], healthy: Mapping[str, MeasuredCell]
) -> tuple[str, ...]:
    """What the judge says against a comparison whose one side always measures this, and the other what is healthy."""
    provenance = Provenance("0", "0", Hardware("bench", "cpu", 2, 1), WorkloadInfo("bench", "0", 1, {}))
    opened = CampaignOpened(0.0, CampaignSpec("bench"), asked.service, asked.baseline, provenance)
    sides = ((asked.baseline, healthy, Verification()), (asked.candidate, cells, found))
    trials = [_confirming(number, *side) for number, side in enumerate(sides * PAIRS, start=1)]
    history = History(opened, trials={trial.number: trial for trial in trials})
    return tuple(unfair(history, asked.candidate.id))


def _confirming(number: int, tried: Candidate, cells: Mapping[str, MeasuredCell], found: Verification) -> Trial:
    done = TrialState.VALID
    return Trial(number, 1, tried, Purpose.CONFIRM, "", 0.0, done, verification=found, cells=cells, ended_at=1.0)


def about_load(asked: Asked, cells: Mapping[str, MeasuredCell]) -> Verification:
    """The findings that need nothing but what was measured."""
    found = Gate().after(asked, Evidence("", {}, ListenerOwner.UNKNOWN), Seen(), cells)
    names = {"measured-soundly", "no-failed-requests", "sustained-generation"}
    return Verification(tuple(finding for finding in found.findings if finding.check in names))


NOWHERE = Service("", "", "", {}, {}, "127.0.0.1", 0, "m")
"""The service of a server that only answers."""
