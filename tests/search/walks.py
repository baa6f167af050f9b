"""Plays a strategy against a known surface, for tests of strategies."""

from __future__ import annotations

from collections.abc import Callable

from spectune.domain.candidate import Candidate
from spectune.domain.ports import Proposal, Stop, Strategy
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Purpose
from spectune.domain.verdict import Decision
from tests.support.histories import BASELINE, Story, verdict

Surface = Callable[[Candidate], float]
"""Candidate -> speed against the baseline."""


def played(strategy: Strategy, campaign: CampaignSpec, surface: Surface) -> tuple[list[Proposal], Stop]:
    """Every proposal until the strategy stops. A candidate is kept when it is above all before it."""
    story, best = Story(campaign), 1.0
    made: list[Proposal] = []
    while True:
        step = strategy.propose(campaign, story.history)
        if isinstance(step, Stop):
            return made, step
        made.append(step)
        speed = surface(step.candidate) if step.candidate != BASELINE else 1.0
        decision = Decision.KEEP if speed > best else Decision.REVERT
        if step.purpose is Purpose.EXPLORE:
            best = max(best, speed)
        story.trial(step.candidate, step.purpose, verdict(decision, speed))


def explored(made: list[Proposal]) -> list[Candidate]:
    return [step.candidate for step in made if step.purpose is Purpose.EXPLORE]


def depths(made: list[Proposal]) -> list[int]:
    return [candidate.speculation.depth for candidate in explored(made)]
