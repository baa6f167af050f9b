"""The list of campaigns, from the few events that it takes: no records are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spectune.domain.events import CampaignEnded, CampaignOpened, TrialStarted
from spectune.domain.ports import CampaignRow
from spectune.ledger import codec

_OPENED, _RESUMED, _STARTED, _ENDED = "campaign-opened", "campaign-resumed", "trial-started", "campaign-ended"
OUTLINE_KINDS = (_OPENED, _RESUMED, _STARTED, _ENDED)


@dataclass(frozen=True, slots=True)
class OutlineEvent:
    """A stored event of OUTLINE_KINDS, not decoded yet."""

    campaign: str
    seq: int
    kind: str
    trial: int | None
    body: str


def row_of(campaign: str, name: str, opened_at: float, outline: Sequence[OutlineEvent]) -> CampaignRow:
    """One line of the list.

    Args:
        outline: the campaign's events of OUTLINE_KINDS, in order.

    Raises:
        LedgerError: when an event can't be read.
    """
    trials = {event.trial for event in outline if event.kind == _STARTED}
    # A campaign that was resumed after its end is open again, as in the fold of its history.
    last = next((event for event in reversed(outline) if event.kind in {_ENDED, _RESUMED}), None)
    ended = last is not None and last.kind == _ENDED
    winner = _winner(last, outline) if last is not None and ended else ""
    return CampaignRow(campaign, name, opened_at, len(trials), ended, winner, _simulated(outline))


def _simulated(outline: Sequence[OutlineEvent]) -> str:
    opening = next((event for event in outline if event.kind == _OPENED), None)
    event = codec.decode(opening.body, opening.campaign, opening.seq) if opening else None
    return event.provenance.simulated if isinstance(event, CampaignOpened) else ""


def _winner(ending: OutlineEvent, outline: Sequence[OutlineEvent]) -> str:
    """The winning candidate's label; its id where no trial of it is recorded."""
    end = codec.decode(ending.body, ending.campaign, ending.seq)
    winner = end.conclusion.winner if isinstance(end, CampaignEnded) else None
    if winner is None:
        return ""
    for event in outline:
        match codec.decode(event.body, event.campaign, event.seq):
            case CampaignOpened(baseline=candidate) | TrialStarted(candidate=candidate) if candidate.id == winner:
                return candidate.label
    return winner
