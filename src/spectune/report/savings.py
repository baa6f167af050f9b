"""What the order of trying saved: depths that a grid would have launched, and the campaign did not need."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from spectune.domain.history import History
from spectune.domain.spec import SpeculationSpace
from spectune.domain.trial import Purpose, Trial, TrialState
from spectune.report import words
from spectune.report.model import Note, NoteKind


def savings(history: History) -> Iterator[Note]:
    """One note, once the campaign has ended: how many depths of the campaign file were launched, how often more a grid
    would have started the server, and how much longer that would have taken, by the mean of the explorations made. The
    depth that the service ran with counts as launched. Nothing is said where no depth was left out."""
    spaces = history.opened.spec.search.speculation
    asked = sum(len(set(space.depths)) for space in spaces)
    left = asked - sum(len(_launched(history, space)) for space in spaces)
    if history.conclusion is None or not left:
        return
    times = [trial.ended_at - trial.started_at for trial in history.finished if _explored(trial) and trial.ended_at]
    length = f", about {words.minutes(left * fmean(times) / 60)} longer" if times else ""
    more = words.plural(left, "time")
    yield Note(
        NoteKind.INFO,
        f"{asked - left} of {words.plural(asked, 'depth')} asked for were launched: a grid would have started the "
        f"server {more} more{length}.",
    )


def _launched(history: History, space: SpeculationSpace) -> set[int]:
    """Depths of a method that were launched, whatever the other settings."""
    tried = [trial.candidate for trial in history.ordered if trial.state is not TrialState.PRUNED]
    return {
        candidate.speculation.depth
        for candidate in tried
        if candidate.speculation.method is space.method
        and candidate.speculation.draft_model == space.draft_model
        and not candidate.speculation.schedule
    } & set(space.depths)


def _explored(trial: Trial) -> bool:
    return trial.purpose is Purpose.EXPLORE and trial.state is not TrialState.PRUNED
