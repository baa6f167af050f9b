"""The loop: propose -> deploy -> verify -> measure -> decide -> keep or revert -> next.

Every value is in the ledger before the next step is taken, so that a campaign which was killed at any moment goes on
from the ledger alone. Nothing here touches files, processes or the network: that is what the rooms are for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from spectune.domain.asked import Asked
from spectune.domain.deployment import Counters, Deployment, Evidence, Launch, ListenerOwner, Seen, Service
from spectune.domain.errors import EngineFailure, EngineUnusable, FailureKind, InputError
from spectune.domain.events import (
    CampaignEnded,
    CampaignPaused,
    CampaignResumed,
    Decided,
    Deployed,
    Event,
    Measured,
    TrialEnded,
    TrialStarted,
    Verified,
)
from spectune.domain.finding import ProbeRun, Status
from spectune.domain.history import History
from spectune.domain.ports import (
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
    launch_of,
)
from spectune.domain.questions import Exam, Questions
from spectune.domain.redaction import redact, redact_text
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import MeasuredCell, Purpose, Trial, TrialState
from spectune.domain.verdict import Conclusion
from spectune.domain.window import ALWAYS, Closing, Opening, Pause, Window, needed_s
from spectune.domain.workload import Cell, Prompt

_MEMORY_BACK_S, _MEMORY_BACK_POLL_S = 15.0, 0.5
_LOG_TAIL = 4000
"""What the ledger keeps of a failed trial's log, characters; its cause is named from more of it."""

_DIAGNOSED = 64 << 10


@dataclass(frozen=True, slots=True)
class Rooms:
    """Everything the loop works with; assemble chooses the concrete ones.

    Attributes:
        probes, sampled, exams: what is asked before measuring, see Questions.
        beside: the service once more, on another free port of the host.
        load_average: 1-minute load average of the host.
        gpu_memory: bytes in use on the service's GPUs together; None where there is none or it can't be told.
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
    beside: Callable[[Service], Service]
    load_average: Callable[[], float]
    version: str
    gpu_memory: Callable[[], int | None] = lambda: None
    sampled: tuple[Prompt, ...] = ()
    exams: tuple[Exam, ...] = ()


@dataclass(frozen=True, slots=True)
class _Arm:
    """A trial while its server runs."""

    number: int
    asked: Asked
    running: Running
    target: Target


_End = tuple[TrialState, str, str]
"""How a trial ended: its state, the reason, and the log's end where it failed."""


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
        now = self._rooms.clock.now()
        self._opening = Opening(*window.around(now))
        if now < self._opening.begin:
            return Pause(self._opening.begin, "it is not open yet")
        try:
            return self.run()
        except Closing as closing:
            pause = self._opening.pause(closing, window)
            self._record(CampaignPaused(self._rooms.clock.now(), pause.until, pause.reason))
            return pause

    def _pick_up(self) -> None:
        """Ends what a killed run left behind, and finishes the trial it was in."""
        cleaned = self._rooms.deployer.sweep(f"{self._id}.")
        interrupted = self._history.open_trials
        if self._history.trials:
            self._record(CampaignResumed(self._rooms.clock.now(), self._rooms.version, cleaned))
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
        self._opening.check_room(self._rooms.clock.now(), needed_s(self._spec, self._history))
        number = number or len(self._history.trials) + 1
        self._record(
            TrialStarted(
                self._rooms.clock.now(), number, attempt, proposal.candidate, proposal.purpose, proposal.reason,
                proposal.beside,
            )
        )  # fmt: skip
        ends = [self._attempt(number)] if proposal.beside is None else self._attempt_beside(number)
        for offset, (state, reason, log) in enumerate(ends):
            self._record(TrialEnded(self._rooms.clock.now(), number + offset, state, reason, log))
        for offset in range(len(ends)):
            self._decide(number + offset)

    def _attempt(self, number: int) -> _End:
        """Deploys, verifies and measures one trial."""
        try:
            with self._deployed(number, self._service) as arm:
                if self._proves(arm):
                    self._measure(arm)
                    self._check_after(arm)
        except InputError as error:
            return TrialState.PRUNED, error.message, ""
        except EngineFailure as failure:
            named = self._rooms.engine.diagnose(failure)
            return TrialState.INVALID, f"{named.kind}: {named.message}", redact_text(named.log_tail[-_LOG_TAIL:])
        return self._end(number)

    def _attempt_beside(self, number: int) -> tuple[_End, _End]:
        """The same for two trials side by side. A failure here may be that of the company: it is held against
        neither, and both can be tried alone."""
        spare = self._rooms.beside(self._service)
        try:
            with self._deployed(number, self._service) as first, self._deployed(number + 1, spare) as second:
                if self._proves(first) and self._proves(second):
                    self._measure_in_turns(first, second)
                    self._check_after(first)
                    self._check_after(second)
        except (InputError, EngineFailure) as failure:
            named = self._rooms.engine.diagnose(failure) if isinstance(failure, EngineFailure) else failure
            end = TrialState.PRUNED, f"side by side did not work: {named.message}", ""
            return end, end
        ends = self._end(number), self._end(number + 1)
        if all(state is not TrialState.INVALID for state, _, _ in ends):
            return ends
        alone = TrialState.PRUNED, "the server beside it did not pass its checks", ""
        first_end, second_end = (end if end[0] is TrialState.INVALID else alone for end in ends)
        return first_end, second_end

    def _end(self, number: int) -> _End:
        state, reason = self._rooms.verifier.state(self._history.trials[number].verification)
        return state, reason, ""

    @contextmanager
    def _deployed(self, number: int, service: Service) -> Iterator[_Arm]:
        trial = self._history.trials[number]
        launch = launch_of(self._rooms.engine, service, trial.candidate)
        load_average = self._rooms.load_average()
        asked = self._asked(trial, launch, self._rooms.clock.now())
        gpu_before = self._rooms.gpu_memory()
        with self._rooms.deployer.deploy(launch, f"{self._id}.{number}.{trial.attempt}") as running:
            seen = self._rooms.engine.read(running.observe(launch.probe_paths))
            argv, env = redact(launch.argv, launch.env)
            deployment = Deployment(
                argv, env, launch.url, running.pid, running.started_unix, running.ready_s, load_average, seen
            )
            self._record(Deployed(self._rooms.clock.now(), number, deployment))
            yield _Arm(number, asked, running, self._target(launch, running))
        self._check_stopped(number, asked, gpu_before)

    def _proves(self, arm: _Arm) -> bool:
        """Compares answers and settings with what was asked; whether measuring makes sense."""
        self._progress(arm.number, "comparing greedy answers with the baseline's")
        questions = Questions(self._rooms.probes, self._rooms.sampled, self._rooms.exams)
        probes = questions.put_to(self._rooms.load, arm.target, arm.asked.most_users, self._rooms.clock.monotonic)
        # Engines show a request's effective settings only once one has run.
        evidence, seen = self._observed(arm)
        findings = self._rooms.verifier.before(arm.asked, evidence, seen, probes)
        self._record(Verified(self._rooms.clock.now(), arm.number, findings, probes=probes))
        if self._dead(arm, evidence, probes):
            died = EngineFailure(FailureKind.DIED_MEASURING, "the server died while it was asked for answers")
            raise _with_log(died, evidence)
        return findings.invalid_because is None

    def _dead(self, arm: _Arm, evidence: Evidence, probes: tuple[ProbeRun, ...]) -> bool:
        """Whether a server has ended, or only its front is left, which says so on its health page for a while."""
        if evidence.exit is not None or evidence.listener is ListenerOwner.NONE:
            return True
        if not any(answer.error for run in probes for answer in run.answers):
            return False
        ready = arm.asked.launch.ready_path
        page = arm.running.observe((ready,)).pages.get(ready)
        return page is not None and page.status >= 500

    def _measure(self, arm: _Arm) -> None:
        for cell, prompts, progress in self._cells(arm.number):
            try:
                measured = self._rooms.load.measure(arm.target, cell, prompts, self._limits, progress)
            except EngineFailure as failure:
                raise _with_log(failure, arm.running.observe()) from failure
            self._measured(arm.number, measured)

    def _measure_in_turns(self, first: _Arm, second: _Arm) -> None:
        for cell, prompts, progress in self._cells(first.number):
            both = self._rooms.load.duel((first.target, second.target), cell, prompts, self._limits, progress)
            for arm, measured in zip((first, second), both, strict=True):
                self._measured(arm.number, measured)

    def _check_after(self, arm: _Arm) -> None:
        evidence, seen = self._observed(arm)
        cells = self._history.trials[arm.number].cells
        findings = self._rooms.verifier.after(arm.asked, evidence, seen, cells)
        self._record(Verified(self._rooms.clock.now(), arm.number, findings))

    def _check_stopped(self, number: int, asked: Asked, gpu_before: int | None) -> None:
        """Whether the server gave its memory back. Drivers take a moment after the process has gone."""
        clock = self._rooms.clock
        deadline = clock.monotonic() + _MEMORY_BACK_S
        while (gpu_after := self._rooms.gpu_memory()) is not None and gpu_before is not None:
            findings = self._rooms.verifier.stopped(asked, gpu_before, gpu_after)
            if all(finding.status is Status.OK for finding in findings.findings) or clock.monotonic() >= deadline:
                self._record(Verified(clock.now(), number, findings))
                return
            clock.sleep(_MEMORY_BACK_POLL_S)

    def _observed(self, arm: _Arm) -> tuple[Evidence, Seen]:
        evidence = arm.running.observe(arm.asked.launch.probe_paths)
        return evidence, self._rooms.engine.read(evidence)

    def _measured(self, number: int, cell: MeasuredCell) -> None:
        self._record(Measured(self._rooms.clock.now(), number, cell.measurement, cell.records))

    @property
    def _limits(self) -> Limits:
        return Limits(self._spec.budget.cell_seconds, self._spec.budget.precision)

    def _cells(self, number: int) -> Iterator[tuple[Cell, Iterator[Prompt], Callable[[str], None]]]:
        """Every cell with its prompts, the same for every trial, and with who hears of its progress."""
        cells = self._spec.cells
        for lane, cell in enumerate(cells, start=1):
            self._opening.check_open(self._rooms.clock.now(), self._history.trials[number])
            prompts = self._rooms.prompts.deal(lane, len(cells) + 1)
            yield cell, prompts, partial(self._cell_progress, number, cell)

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
        seen = [trial.deployment.seen for trial in baselines if trial.deployment]
        return Asked(
            service=self._service,
            candidate=trial.candidate,
            baseline=self._history.baseline,
            launch=launch,
            cells=self._spec.cells,
            started_after=started_after,
            baseline_probes=tuple(t.probes for t in baselines if t.probes)[:2],
            baseline_warnings=tuple(sorted({line for s in seen for line in s.warnings})) if seen else None,
            baseline_capacity=seen[-1].capacity if seen else None,
            baseline_settings=seen[-1].settings if seen else None,
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
    log = evidence.exit.log_tail if evidence.exit is not None else evidence.log[-_DIAGNOSED:]
    return EngineFailure(failure.kind, failure.message, failure.advice, log)
