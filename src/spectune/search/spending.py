"""What the budget still allows, and when the incumbent is measured again."""

from __future__ import annotations

from spectune.domain.candidate import Candidate
from spectune.domain.history import History
from spectune.domain.ports import Proposal
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Purpose

ANCHOR_EVERY = 3
"""Explorations between two measurements of the incumbent; machines drift within minutes."""


def affordable(spec: CampaignSpec, history: History, winner: Candidate | None) -> bool:
    """Whether one more exploration, with the anchor that is due before it, leaves enough of the budget for the
    confirmation; while there is nobody to confirm, for one pair of it.

    Args:
        winner: who would be confirmed now.
    """
    pairs = spec.budget.confirm_pairs if winner else min(1, spec.budget.confirm_pairs)
    trials, needed = len(history.finished), 1 + 2 * pairs + (anchor(history) is not None)
    per_trial = history.spent_s / max(1, trials)
    return trials + needed <= spec.budget.trials and history.spent_s + per_trial * needed <= spec.budget.minutes * 60


def anchor(history: History) -> Proposal | None:
    """The incumbent again, when it was last measured some explorations ago."""
    incumbent, since = history.incumbent, 0
    for trial in reversed(history.finished):
        if trial.candidate.id == incumbent.id and trial.valid:
            break
        since += 1
    if since < ANCHOR_EVERY:
        return None
    return Proposal(incumbent, Purpose.ANCHOR, f"the best so far again, {since} trials later: has the machine drifted?")
