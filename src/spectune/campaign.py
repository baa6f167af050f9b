"""The loop: propose -> deploy -> verify -> measure -> decide -> keep or revert -> next.

Every value is in the ledger before the next step is taken, so that a campaign which was killed at any moment goes on
from the ledger alone. Nothing here touches files, processes or the network: that is what the rooms are for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from spectune.domain.deployment import Counters, Deployment, Evidence, Launch, Service
from spectune.domain.errors import EngineFailure, EngineUnusable, InputError
from spectune.domain.events import (
    CampaignEnded,
    CampaignResumed,
    Decided,
    Deployed,
    Event,
    Measured,
    TrialEnded,
    TrialStarted,
    Verified,
)
from spectune.domain.history import History
from spectune.domain.ports import (
    Asked,
    Clock,
    Deployer,
    Engine,
    Judge,
    Ledger,
    Limits,
    LoadGenerator,
    Observer,
    PromptSource,
    Proposal,
    Running,
    Stop,
    Strategy,
    Target,
    Verifier,
)
from spectune.domain.redaction import redact, redact_text
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Purpose, Trial, TrialState
from spectune.domain.verdict import Conclusion
from spectune.domain.workload import Cell, Prompt

_LOG_TAIL = 4000


@dataclass(frozen=True, slots=True)
class Rooms:
    """Everything the loop works with; assemble chooses the concrete ones.

    Attributes:
        probes: prompts whose greedy answers are compared with the baseline's; never among the measured ones.
        load_average: 1-minute load average of the host.
        version: spectune's own.
    """

    engine: Engine
    deployer: Deployer
    load: LoadGenerator
    prompts: PromptSource
    probes: tuple[Prompt, ...]
    verifier: Verifier
    strategy: Strategy
    judge: Judge
    ledger: Ledger
    clock: Clock
    observer: Observer
    load_average: Callable[[], float]
    version: str


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
        self._history = History.of(rooms.ledger.events(campaign))

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

    def _pick_up(self) -> None:
        """Ends what a killed run left behind, and finishes the trial it was in."""
        cleaned = self._rooms.deployer.sweep(f"{self._id}.")
        interrupted = self._history.open_trial
        if self._history.trials:
            self._record(CampaignResumed(self._rooms.clock.now(), self._rooms.version, cleaned))
        if interrupted is None:
            return
        if interrupted.ended_at is None:
            again = Proposal(interrupted.candidate, interrupted.purpose, interrupted.reason)
            self._try(again, interrupted.number, interrupted.attempt + 1)
        else:
            self._decide(interrupted.number)

    def _try(self, proposal: Proposal, number: int | None = None, attempt: int = 1) -> None:
        number = number or len(self._history.trials) + 1
        now = self._rooms.clock.now()
        self._record(TrialStarted(now, number, attempt, proposal.candidate, proposal.purpose, proposal.reason))
        state, reason, log = self._attempt(number)
        self._record(TrialEnded(self._rooms.clock.now(), number, state, reason, log))
        self._decide(number)

    def _attempt(self, number: int) -> tuple[TrialState, str, str]:
        """Deploys, verifies and measures; returns the state, its reason, and the log's end where it failed."""
        trial = self._history.trials[number]
        try:
            launch = self._rooms.engine.launch(self._service, trial.candidate)
        except InputError as error:
            return TrialState.PRUNED, error.message, ""
        mark = f"{self._id}.{number}.{trial.attempt}"
        load_average = self._rooms.load_average()
        started_after = self._rooms.clock.now()
        try:
            with self._rooms.deployer.deploy(launch, mark) as running:
                asked = self._asked(trial, launch, started_after)
                self._verify_and_measure(number, asked, running, load_average)
        except EngineFailure as failure:
            named = self._rooms.engine.diagnose(failure)
            return TrialState.INVALID, f"{named.kind}: {named.message}", redact_text(named.log_tail[-_LOG_TAIL:])
        state, reason = self._rooms.verifier.state(self._history.trials[number].verification)
        return state, reason, ""

    def _verify_and_measure(self, number: int, asked: Asked, running: Running, load_average: float) -> None:
        target = self._target(asked.launch, running)
        evidence = running.observe(asked.launch.probe_paths)
        seen = self._rooms.engine.read(evidence)
        argv, env = redact(asked.launch.argv, asked.launch.env)
        deployment = Deployment(
            argv, env, asked.launch.url, running.pid, running.started_unix, running.ready_s, load_average, seen
        )
        self._record(Deployed(self._rooms.clock.now(), number, deployment))
        self._progress(number, "comparing greedy answers with the baseline's")
        answers = self._rooms.load.ask(target, self._rooms.probes, concurrency=1)
        # Engines show a request's effective settings only once one has run.
        evidence = running.observe(asked.launch.probe_paths)
        findings = self._rooms.verifier.before(asked, evidence, self._rooms.engine.read(evidence), answers)
        self._record(Verified(self._rooms.clock.now(), number, findings, answers))
        if findings.invalid_because is not None:
            return
        self._measure(number, target, running)
        evidence = running.observe(asked.launch.probe_paths)
        cells = self._history.trials[number].cells
        findings = self._rooms.verifier.after(asked, evidence, self._rooms.engine.read(evidence), cells)
        self._record(Verified(self._rooms.clock.now(), number, findings))

    def _measure(self, number: int, target: Target, running: Running) -> None:
        budget = self._spec.budget
        cells = self._spec.cells
        limits = Limits(budget.cell_seconds, budget.precision)
        for lane, cell in enumerate(cells, start=1):
            prompts = self._rooms.prompts.deal(lane, len(cells) + 1)
            progress = partial(self._cell_progress, number, cell)
            try:
                measured = self._rooms.load.measure(target, cell, prompts, limits, progress)
            except EngineFailure as failure:
                raise _with_log(failure, running.observe()) from failure
            self._record(Measured(self._rooms.clock.now(), number, measured.measurement, measured.records))

    def _decide(self, number: int) -> None:
        verdict = self._rooms.judge.decide(self._spec, self._history, self._history.trials[number])
        self._record(Decided(self._rooms.clock.now(), number, verdict))

    def _conclude(self, stop: Stop) -> Conclusion:
        judged = self._rooms.judge.conclude(self._spec, self._history)
        conclusion = replace(judged, notes={**judged.notes, "search": stop.reason})
        self._record(CampaignEnded(self._rooms.clock.now(), conclusion))
        broken = next((t for t in self._history.ordered if t.purpose is Purpose.BASELINE and not t.valid), None)
        if broken is not None:
            raise EngineUnusable(
                f"the service as it is does not pass: {broken.state_reason}",
                "Nothing was tuned. The report shows the findings, and the end of the server's log.",
            )
        return conclusion

    def _asked(self, trial: Trial, launch: Launch, started_after: float) -> Asked:
        baselines = [t for t in self._history.finished if t.valid and t.candidate.id == self._history.baseline.id]
        warnings = {line for t in baselines if t.deployment for line in t.deployment.seen.warnings}
        return Asked(
            candidate=trial.candidate,
            baseline=self._history.baseline,
            launch=launch,
            cells=self._spec.cells,
            started_after=started_after,
            baseline_answers=tuple(t.answers for t in baselines if t.answers)[:2],
            baseline_warnings=tuple(sorted(warnings)),
        )

    def _target(self, launch: Launch, running: Running) -> Target:
        path = launch.counters_path

        def counters() -> Counters | None:
            return None if path is None else self._rooms.engine.read(running.observe((path,))).counters

        return Target(launch.url, launch.model_id, counters, launch.headers, launch.keep_alive)

    def _cell_progress(self, number: int, cell: Cell, text: str) -> None:
        self._progress(number, f"{cell.label}: {text}")

    def _progress(self, number: int, text: str) -> None:
        self._rooms.observer.progress(number, text)

    def _record(self, event: Event) -> None:
        self._rooms.ledger.append(self._id, event)
        self._history = self._history.then(event)
        self._rooms.observer.event(event, self._history)


def _with_log(failure: EngineFailure, evidence: Evidence) -> EngineFailure:
    log = evidence.exit.log_tail if evidence.exit is not None else evidence.log[-_LOG_TAIL:]
    return EngineFailure(failure.kind, failure.message, failure.advice, log)
