"""The fold of a campaign's events: what is known so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from spectune.domain.candidate import Candidate
from spectune.domain.errors import LedgerError
from spectune.domain.events import (
    CampaignEnded,
    CampaignOpened,
    CampaignPaused,
    CampaignResumed,
    Decided,
    Deployed,
    Event,
    Measured,
    Promoted,
    RolledBack,
    TrialEnded,
    TrialStarted,
    Verified,
)
from spectune.domain.finding import ProbeRun
from spectune.domain.trial import MeasuredCell, Purpose, Trial
from spectune.domain.verdict import Conclusion, Decision


@dataclass(frozen=True, slots=True)
class History:
    """Attributes:
    opened: the campaign's first event.
    trials: by number, latest attempt only.
    conclusion: set once the campaign has ended.
    abandoned: attempts that a kill or the end of a window cut off.
    resumed: how often it went on after an interruption.
    pauses: how often it waited for the next maintenance window.
    paused: the last thing it did was to pause.
    in_service: promotions and what undid them, in order.
    """

    opened: CampaignOpened
    trials: Mapping[int, Trial] = field(default_factory=dict)
    conclusion: Conclusion | None = None
    abandoned: int = 0
    resumed: int = 0
    pauses: int = 0
    paused: bool = False
    in_service: tuple[Promoted | RolledBack, ...] = ()

    @classmethod
    def of(cls, events: Iterable[Event]) -> Self:
        """Folds events in ledger order.

        Raises:
            LedgerError: when the first event does not open a campaign, or an event names a trial that never started.
        """
        stream = iter(events)
        first = next(stream, None)
        if not isinstance(first, CampaignOpened):
            raise LedgerError("the campaign has no opening event", "The ledger is damaged; restore it from a copy.")
        history = cls(first)
        for event in stream:
            history = history.then(event)
        return history

    def then(self, event: Event) -> Self:
        """The history after one more event."""
        match event:
            case CampaignOpened():
                raise LedgerError("a campaign is opened twice", "The ledger is damaged; restore it from a copy.")
            case CampaignResumed():
                return replace(self, resumed=self.resumed + (not self.paused), paused=False, conclusion=None)
            case CampaignPaused():
                return replace(self, pauses=self.pauses + 1, paused=True)
            case Promoted() | RolledBack():
                return replace(self, in_service=(*self.in_service, event))
            case CampaignEnded():
                return replace(self, conclusion=event.conclusion)
            case TrialStarted():
                lost = self.abandoned + (event.trial in self.trials)
                return replace(self, trials={**self.trials, **_started(event)}, abandoned=lost, paused=False)
            case _:
                if event.trial not in self.trials:
                    raise LedgerError(
                        f"trial {event.trial} was never started", "The ledger is damaged; restore it from a copy."
                    )
                changed = _advance(self.trials[event.trial], event)
                return replace(self, trials={**self.trials, event.trial: changed})

    @property
    def baseline(self) -> Candidate:
        return self.opened.baseline

    @property
    def ordered(self) -> tuple[Trial, ...]:
        return tuple(self.trials[number] for number in sorted(self.trials))

    @property
    def finished(self) -> tuple[Trial, ...]:
        """Trials that ended, in order."""
        return tuple(trial for trial in self.ordered if trial.ended_at is not None)

    @property
    def open_trials(self) -> tuple[Trial, ...]:
        """Trials that were started and not decided, two where they ran side by side: after a kill they must be made
        again or decided."""
        return tuple(trial for trial in self.ordered if trial.verdict is None)

    def of_candidate(self, candidate_id: str) -> tuple[Trial, ...]:
        """Comparable trials of one candidate, in order."""
        return tuple(trial for trial in self.finished if trial.valid and trial.candidate.id == candidate_id)

    @property
    def candidates(self) -> Mapping[str, Candidate]:
        """Every candidate that was tried, by id, in the order of first trial."""
        return {trial.candidate.id: trial.candidate for trial in self.ordered}

    @property
    def incumbent(self) -> Candidate:
        """The best so far: the candidate of the last KEEP among explorations, else the baseline."""
        best = self.baseline
        for trial in self.finished:
            if (
                trial.purpose is Purpose.EXPLORE
                and trial.verdict is not None
                and trial.verdict.decision is Decision.KEEP
            ):
                best = trial.candidate
        return best

    @property
    def promoted(self) -> tuple[Promoted, ...]:
        """Promotions that were not undone, oldest first."""
        return in_force(self.in_service)

    @property
    def spent_s(self) -> float:
        """Seconds spent in trials; time between a kill and the resuming is not counted, side by side counts once."""
        return sum(
            trial.ended_at - trial.started_at
            for trial in self.ordered
            if trial.ended_at is not None and (trial.beside is None or trial.beside > trial.number)
        )


def in_force(events: Iterable[Promoted | RolledBack]) -> tuple[Promoted, ...]:
    """Promotions that were neither undone nor replaced by another of the same number, oldest first."""
    found: dict[tuple[str, str, int], Promoted] = {}
    for event in events:
        place = (event.where, event.unit, event.number)
        found.pop(place, None)
        if isinstance(event, Promoted):
            found[place] = event
    return tuple(found.values())


def _started(event: TrialStarted) -> dict[int, Trial]:
    first, second = event.trial, event.trial + 1
    trial = Trial(first, event.attempt, event.candidate, event.purpose, event.reason, event.at)
    if event.beside is None:
        return {first: trial}
    other = replace(trial, number=second, candidate=event.beside, beside=first)
    return {first: replace(trial, beside=second), second: other}


def _advance(trial: Trial, event: Deployed | Verified | Measured | TrialEnded | Decided) -> Trial:
    match event:
        case Deployed():
            return replace(trial, deployment=event.deployment)
        case Verified():
            verification = trial.verification + event.verification
            probes = event.probes or ((ProbeRun(1, event.answers),) if event.answers else ())
            return replace(trial, verification=verification, probes=trial.probes + probes)
        case Measured():
            cell = MeasuredCell(event.measurement, event.records)
            return replace(trial, cells={**trial.cells, event.measurement.cell.key: cell})
        case TrialEnded():
            return replace(trial, state=event.state, state_reason=event.reason, log=event.log, ended_at=event.at)
        case Decided():
            return replace(trial, verdict=event.verdict)
