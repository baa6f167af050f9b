"""One attempt at a trial: deploy -> verify -> measure, alone or side by side with another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from spectune.domain.asked import Asked
from spectune.domain.deployment import Counters, Deployment, Evidence, Launch, ListenerOwner, Seen, Service
from spectune.domain.errors import EngineFailure, FailureKind, InputError
from spectune.domain.events import Deployed, Measured, Verified
from spectune.domain.finding import Status
from spectune.domain.ports import Limits, Running, Target, launch_of
from spectune.domain.questions import Questions
from spectune.domain.redaction import redact, redact_text
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import MeasuredCell, Trial, TrialState
from spectune.domain.unasked import asked_before, unasked
from spectune.domain.window import Opening
from spectune.domain.workload import Cell, Prompt
from spectune.rooms import Record, Rooms

_MEMORY_BACK_S, _MEMORY_BACK_POLL_S = 15.0, 0.5
_FRONT_S, _FRONT_POLL_S = 3.0, 0.25
"""How long a front whose engine has died may go on as if nothing had happened, and how often to ask it."""

_LOG_TAIL = 4000
"""What the ledger keeps of a failed trial's log, characters; its cause is named from more of it."""

_DIAGNOSED = 1 << 20
"""Of a log that is searched for a cause: an engine whose core has died writes a traceback for every later request."""


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt ended.

    Attributes:
        log: the log's end where it failed.
    """

    state: TrialState
    reason: str
    log: str = ""


@dataclass(frozen=True, slots=True)
class _Arm:
    """A trial while its server runs."""

    number: int
    asked: Asked
    running: Running
    target: Target


@dataclass(frozen=True, slots=True)
class Attempt:
    """Attributes:
    campaign: its id in the ledger.
    opening: the window that a trial may not go on beyond.
    """

    rooms: Rooms
    campaign: str
    spec: CampaignSpec
    service: Service
    record: Record
    opening: Opening

    def alone(self, number: int) -> End:
        """Deploys, verifies and measures one trial.

        Raises:
            Closing: the window ended in its midst.
            HostError, LedgerError: what the rooms could not do.
        """
        try:
            with self._deployed(number, self.service) as arm:
                if self._proves(arm):
                    self._measure(arm)
                    self._check_after(arm)
        except InputError as error:
            return End(TrialState.PRUNED, error.message)
        except EngineFailure as failure:
            named = self.rooms.engine.diagnose(failure)
            return End(TrialState.INVALID, f"{named.kind}: {named.message}", redact_text(named.log_tail[-_LOG_TAIL:]))
        return self._end(number)

    def beside(self, number: int) -> tuple[End, End]:
        """The same for a trial and the one after it, side by side. A failure here may be that of the company: it is
        held against neither, and both can be tried alone. Raises as alone."""
        spare = self.rooms.beside(self.service)
        try:
            with self._deployed(number, self.service) as first, self._deployed(number + 1, spare) as second:
                if self._proves(first) and self._proves(second):
                    self._measure_in_turns(first, second)
                    self._check_after(first)
                    self._check_after(second)
        except (InputError, EngineFailure) as failure:
            named = self.rooms.engine.diagnose(failure) if isinstance(failure, EngineFailure) else failure
            end = End(TrialState.PRUNED, f"side by side did not work: {named.message}")
            return end, end
        ends = self._end(number), self._end(number + 1)
        if all(end.state is not TrialState.INVALID for end in ends):
            return ends
        company = End(TrialState.PRUNED, "the server beside it did not pass its checks")
        first_end, second_end = (end if end.state is TrialState.INVALID else company for end in ends)
        return first_end, second_end

    def _end(self, number: int) -> End:
        return End(*self.rooms.verifier.state(self.record.history.trials[number].verification))

    @contextmanager
    def _deployed(self, number: int, service: Service) -> Iterator[_Arm]:
        """The server of a trial; once it has stopped, it is checked for what it left behind."""
        rooms = self.rooms
        trial = self.record.history.trials[number]
        launch = launch_of(rooms.engine, service, trial.candidate)
        load_average = rooms.load_average()
        asked = self._asked(trial, launch, rooms.clock.now())
        gpu_before = rooms.gpu_memory()
        with rooms.deployer.deploy(launch, f"{self.campaign}.{number}.{trial.attempt}") as running:
            seen = rooms.engine.read(running.observe(launch.probe_paths))
            argv, env = redact(launch.argv, launch.env)
            deployment = Deployment(
                argv, env, launch.url, running.pid, running.started_unix, running.ready_s, load_average, seen
            )
            self.record.add(Deployed(rooms.clock.now(), number, deployment))
            yield _Arm(number, asked, running, self._target(launch, running))
        self._check_stopped(number, asked, gpu_before)

    def _proves(self, arm: _Arm) -> bool:
        """Compares answers and settings with what was asked; whether measuring makes sense."""
        rooms = self.rooms
        rooms.observer.progress(arm.number, "comparing greedy answers with the baseline's")
        questions = Questions(rooms.probes, rooms.sampled, rooms.exams)
        probes = questions.put_to(rooms.load, arm.target, arm.asked.most_users, rooms.clock.monotonic)
        # Engines show a request's effective settings only once one has run.
        evidence, seen = self._observed(arm)
        findings = rooms.verifier.before(arm.asked, evidence, seen, probes)
        self.record.add(Verified(rooms.clock.now(), arm.number, findings, probes=probes))
        last = (
            self._last_of(arm, evidence) if any(answer.error for run in probes for answer in run.answers) else evidence
        )
        if last is None or _has_ended(last):
            died = EngineFailure(FailureKind.DIED_MEASURING, "the server died while it was asked for answers")
            raise _with_log(died, last or arm.running.observe())
        return findings.invalid_because is None

    def _last_of(self, arm: _Arm, evidence: Evidence) -> Evidence | None:
        """What a server shows that failed to answer; None where only its front is left, which goes on for a while
        before its health page says so."""
        clock, ready = self.rooms.clock, arm.asked.launch.ready_path
        deadline = clock.monotonic() + _FRONT_S
        while not _has_ended(evidence):
            evidence = arm.running.observe((ready,))
            page = evidence.pages.get(ready)
            if page is not None and page.status >= 500:
                return None
            if clock.monotonic() >= deadline:
                break
            clock.sleep(_FRONT_POLL_S)
        return evidence

    def _measure(self, arm: _Arm) -> None:
        for cell, prompts, progress in self._cells(arm.number):
            try:
                measured = self.rooms.load.measure(arm.target, cell, prompts, self._limits, progress)
            except EngineFailure as failure:
                raise _with_log(failure, arm.running.observe()) from failure
            self._measured(arm.number, measured)

    def _measure_in_turns(self, first: _Arm, second: _Arm) -> None:
        for cell, prompts, progress in self._cells(first.number):
            both = self.rooms.load.duel((first.target, second.target), cell, prompts, self._limits, progress)
            for arm, measured in zip((first, second), both, strict=True):
                self._measured(arm.number, measured)

    def _check_after(self, arm: _Arm) -> None:
        evidence, seen = self._observed(arm)
        cells = self.record.history.trials[arm.number].cells
        findings = self.rooms.verifier.after(arm.asked, evidence, seen, cells)
        self.record.add(Verified(self.rooms.clock.now(), arm.number, findings))

    def _check_stopped(self, number: int, asked: Asked, gpu_before: int | None) -> None:
        """Whether the server gave its memory back. Drivers take a moment after the process has gone."""
        clock = self.rooms.clock
        deadline = clock.monotonic() + _MEMORY_BACK_S
        while (gpu_after := self.rooms.gpu_memory()) is not None and gpu_before is not None:
            findings = self.rooms.verifier.stopped(asked, gpu_before, gpu_after)
            if all(finding.status is Status.OK for finding in findings.findings) or clock.monotonic() >= deadline:
                self.record.add(Verified(clock.now(), number, findings))
                return
            clock.sleep(_MEMORY_BACK_POLL_S)

    def _observed(self, arm: _Arm) -> tuple[Evidence, Seen]:
        evidence = arm.running.observe(arm.asked.launch.probe_paths)
        return evidence, self.rooms.engine.read(evidence)

    def _measured(self, number: int, cell: MeasuredCell) -> None:
        self.record.add(Measured(self.rooms.clock.now(), number, cell.measurement, cell.records))

    @property
    def _limits(self) -> Limits:
        return Limits(self.spec.budget.cell_seconds, self.spec.budget.precision)

    def _cells(self, number: int) -> Iterator[tuple[Cell, Iterator[Prompt], Callable[[str], None]]]:
        """Every cell with its prompts, and with who hears of its progress. All trials are asked the same, but for the
        pairs of a confirmation, each of which has prompts of its own."""
        cells = self.spec.cells
        for lane, cell in enumerate(cells, start=1):
            history = self.record.history
            self.opening.check_open(self.rooms.clock.now(), history.trials[number])
            asked = asked_before(history, number, cell.key)
            prompts = unasked(self.rooms.prompts.deal(lane, len(cells) + 1), asked)
            yield cell, prompts, partial(self._progress, number, cell)

    def _progress(self, number: int, cell: Cell, text: str) -> None:
        self.rooms.observer.progress(number, f"{cell.label}: {text}")

    def _asked(self, trial: Trial, launch: Launch, started_after: float) -> Asked:
        history = self.record.history
        baselines = [t for t in history.finished if t.valid and t.candidate.id == history.baseline.id]
        seen = [trial.deployment.seen for trial in baselines if trial.deployment]
        return Asked(
            service=self.service,
            candidate=trial.candidate,
            baseline=history.baseline,
            launch=launch,
            cells=self.spec.cells,
            started_after=started_after,
            baseline_probes=tuple(t.probes for t in baselines if t.probes)[:2],
            baseline_warnings=tuple(sorted({line for s in seen for line in s.warnings})) if seen else None,
            baseline_capacity=seen[-1].capacity if seen else None,
            baseline_settings=seen[-1].settings if seen else None,
        )

    def _target(self, launch: Launch, running: Running) -> Target:
        path = launch.counters_path

        def counters() -> Counters | None:
            return None if path is None else self.rooms.engine.read(running.observe((path,))).counters

        return Target(launch.url, launch.model_id, counters, launch.headers, launch.keep_alive)


def _has_ended(evidence: Evidence) -> bool:
    return evidence.exit is not None or evidence.listener is ListenerOwner.NONE


def _with_log(failure: EngineFailure, evidence: Evidence) -> EngineFailure:
    log = evidence.log[-_DIAGNOSED:] or (evidence.exit.log_tail if evidence.exit is not None else "")
    return EngineFailure(failure.kind, failure.message, failure.advice, log)
