"""What the budget still allows, and when the incumbent is measured again."""

from __future__ import annotations

from spectune.domain.history import History
from spectune.domain.ports import Proposal
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Purpose
from spectune.search.staged import ANCHOR_EVERY, finalist


def affordable(spec: CampaignSpec, history: History) -> bool:
    """Whether one more exploration leaves enough of the budget for the confirmation; while there is nobody to confirm,
    for one pair of it."""
    pairs = spec.budget.confirm_pairs if finalist(spec, history) else min(1, spec.budget.confirm_pairs)
    trials = history.finished
    per_trial = history.spent_s / max(1, len(trials))
    return (
        len(trials) + 1 + 2 * pairs <= spec.budget.trials
        and history.spent_s + per_trial * (1 + 2 * pairs) <= spec.budget.minutes * 60
    )


def anchor(history: History) -> Proposal | None:
    """The incumbent again, when it was last measured some explorations ago; machines drift within minutes."""
    incumbent, since = history.incumbent, 0
    for trial in reversed(history.finished):
        if trial.candidate.id == incumbent.id and trial.valid:
            break
        since += 1
    if since < ANCHOR_EVERY:
        return None
    return Proposal(incumbent, Purpose.ANCHOR, f"the best so far again, {since} trials later: has the machine drifted?")
