"""The loop: propose -> deploy -> verify -> measure -> decide -> keep or revert -> next.

Every value is in the ledger before the next step is taken, so that a campaign which was killed at any moment goes on
from the ledger alone. Nothing here touches files, processes or the network: that is what the rooms are for.
"""

from __future__ import annotations

from dataclasses import replace

from spectune.attempt import Attempt
from spectune.domain.deployment import Service
from spectune.domain.errors import EngineUnusable
from spectune.domain.events import CampaignEnded, CampaignPaused, CampaignResumed, Decided, TrialEnded, TrialStarted
from spectune.domain.history import History
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Purpose
from spectune.domain.verdict import Conclusion
from spectune.domain.window import ALWAYS, Closing, Opening, Pause, Window, needed_s
from spectune.rooms import Record, Rooms

__all__ = ["Campaign", "Rooms"]


class Campaign:
    """One campaign, new or resumed.

    Args:
        campaign: its id in the ledger.
        spec: what to do; on resuming it may differ from the opened one in its budget.
        service: what is tuned, its port as of now.
    """

    def __init__(self, rooms: Rooms, campaign: str, spec: CampaignSpec, service: Service) -> None:
        self._rooms = rooms
        self._id = campaign
        self._spec = spec
        self._service = service
        self._record = Record(rooms.ledger, rooms.observer, campaign)
        self._opening = ALWAYS

    def run(self) -> Conclusion:
        """Goes on until there is an answer.

        Raises:
            EngineUnusable: not even the baseline serves.
            HostError, LedgerError: what the rooms could not do; running again goes on from here.
        """
        self._pick_up()
        while isinstance(step := self._rooms.strategy.propose(self._spec, self._history), Proposal):
            self._try(step)
        return self._conclude(step)

    def run_within(self, window: Window) -> Conclusion | Pause:
        """Goes on while the window that is open now has room for another trial.

        Raises:
            InputError: not even an empty window has.
            EngineUnusable, HostError, LedgerError: see run.
        """
        now = self._now()
        self._opening = Opening(*window.around(now))
        if now < self._opening.begin:
            return Pause(self._opening.begin, "it is not open yet")
        try:
            return self.run()
        except Closing as closing:
            pause = self._opening.pause(closing, window)
            self._record.add(CampaignPaused(self._now(), pause.until, pause.reason))
            return pause

    def _pick_up(self) -> None:
        """Ends what a killed run left behind, and finishes the trial it was in."""
        cleaned = self._rooms.deployer.sweep(f"{self._id}.")
        interrupted = self._history.open_trials
        if self._history.trials:
            self._record.add(CampaignResumed(self._now(), self._rooms.version, cleaned))
        if all(trial.ended_at is not None for trial in interrupted):
            for trial in interrupted:
                self._decide(trial.number)
            return
        first = min(interrupted, key=lambda trial: trial.number)
        if first.beside is not None and first.beside < first.number:
            first = self._history.trials[first.beside]
        other = None if first.beside is None else self._history.trials[first.beside].candidate
        again = Proposal(first.candidate, first.purpose, first.reason, other)
        self._try(again, first.number, first.attempt + 1)

    def _try(self, proposal: Proposal, number: int | None = None, attempt: int = 1) -> None:
        self._opening.check_room(self._now(), needed_s(self._spec, self._history))
        number = number or len(self._history.trials) + 1
        self._record.add(
            TrialStarted(
                self._now(), number, attempt, proposal.candidate, proposal.purpose, proposal.reason, proposal.beside
            )
        )
        trying = Attempt(self._rooms, self._id, self._spec, self._service, self._record, self._opening)
        ends = (trying.alone(number),) if proposal.beside is None else trying.beside(number)
        for trial, end in enumerate(ends, start=number):
            self._record.add(TrialEnded(self._now(), trial, end.state, end.reason, end.log))
        for trial, _ in enumerate(ends, start=number):
            self._decide(trial)

    def _decide(self, number: int) -> None:
        verdict = self._rooms.judge.decide(self._spec, self._history, self._history.trials[number])
        self._record.add(Decided(self._now(), number, verdict))

    def _conclude(self, stop: Stop) -> Conclusion:
        judged = self._rooms.judge.conclude(self._spec, self._history)
        conclusion = replace(judged, notes={**judged.notes, "search": stop.reason})
        self._record.add(CampaignEnded(self._now(), conclusion))
        broken = next((t for t in self._history.ordered if t.purpose is Purpose.BASELINE and not t.valid), None)
        if broken is not None:
            raise EngineUnusable(
                f"the service as it is does not pass: {broken.state_reason}",
                "Nothing was tuned. The report shows the findings, and the end of the server's log.",
            )
        return conclusion

    @property
    def _history(self) -> History:
        return self._record.history

    def _now(self) -> float:
        return self._rooms.clock.now()
