"""Rooms of a simulated world, for tests of the loop: they note what is done, and go wrong where they are told to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from spectune.domain.asked import Asked
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Capacity, Evidence, Exit, Launch, ListenerOwner, Page, Seen, Service
from spectune.domain.errors import EngineFailure, FailureKind, InputError, PortTaken
from spectune.domain.estimate import Estimate, Ratio
from spectune.domain.events import CampaignOpened, Event
from spectune.domain.finding import Answer, Finding, ProbeRun, Status, Verification
from spectune.domain.history import History
from spectune.domain.knobs import Knob
from spectune.domain.measurement import Measurement, Outcome
from spectune.domain.metrics import MetricName
from spectune.domain.ports import CampaignRow, Limits, Running, Target
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import MeasuredCell, Trial, TrialState
from spectune.domain.verdict import Conclusion, Decision, Verdict
from spectune.domain.workload import Cell, Message, Prompt, WorkloadInfo

SPEED = {0: 10.0, 1: 14.0, 2: 18.0, 3: 16.0}
"""The truth: depth -> speed."""
PROBE = Prompt("p", "chat", (Message("user", "?"),), 8)


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


@dataclass
class World:
    """What the fakes share: the ledger's events, what runs, and what is to go wrong."""

    events: list[Event] = field(default_factory=list)
    running: set[str] = field(default_factory=set)
    marks: list[str] = field(default_factory=list)
    kill_at: int | None = None
    kill_before_write: bool = False
    fails: Mapping[int, EngineFailure] = field(default_factory=dict)
    dies_measuring: int | None = None  # a trial's number; the other faults name depths
    dies_asked: int = 0
    front_of: int = 0  # a trial whose engine dies when it is asked, and whose front looks well for a while
    front_looked_at: int = 0
    violated: int | None = None
    refused: int | None = None
    port_taken: bool = False
    fails_beside: bool = False
    time: float = 1000.0


@dataclass
class FakeClock:
    world: World

    def now(self) -> float:
        self.world.time += 1
        return self.world.time

    def monotonic(self) -> float:
        return self.world.time

    def sleep(self, seconds: float) -> None:
        self.world.time += seconds


@dataclass
class FakeLedger:
    world: World

    def open(self, opened: CampaignOpened) -> str:
        self.world.events.append(opened)
        return "c1"

    def append(self, campaign: str, event: Event) -> None:
        last = self.world.kill_at == len(self.world.events)
        if last and self.world.kill_before_write:
            raise Killed
        self.world.events.append(event)
        if last:
            raise Killed

    def events(self, campaign: str) -> Iterator[Event]:
        return iter(list(self.world.events))

    def campaigns(self) -> tuple[CampaignRow, ...]:
        return ()


@dataclass
class FakeEngine:
    world: World
    name: str = "fake"
    knobs: Mapping[str, Knob] = field(default_factory=dict)

    def baseline(self, service: Service) -> Candidate:
        return Candidate()

    def launch(self, service: Service, candidate: Candidate) -> Launch:
        if candidate.speculation.depth == self.world.refused:
            raise InputError("k is too deep for this model")
        argv = ("server", "--api-key", "hush", "-k", str(candidate.speculation.depth))
        return Launch(argv, {}, service.url, "/health", ("/props",), None, "m")

    def read(self, evidence: Evidence) -> Seen:
        return Seen(speculating=True, capacity=Capacity(kv_tokens=100))

    def diagnose(self, failure: EngineFailure) -> EngineFailure:
        return EngineFailure(FailureKind.OUT_OF_MEMORY, "no memory", "", failure.log_tail)


@dataclass
class FakeRunning:
    world: World
    pid: int = 1
    started_unix: float = 0.0
    ready_s: float = 1.0

    def observe(self, paths: Iterable[str] = ()) -> Evidence:
        dead = {int(mark.split(".")[1]) for mark in self.world.running} & {
            self.world.dies_measuring,
            self.world.dies_asked,
        }
        if str(self.world.front_of) in {mark.split(".")[1] for mark in self.world.running}:
            self.world.front_looked_at += 1
            health = Page(503 if self.world.front_looked_at > 3 else 200, "")
            return Evidence("log of the server", {"/health": health}, ListenerOwner.OURS)
        log = "the cause\n" + 900 * "a traceback for a request after it\n" + "killed" if dead else "log of the server"
        return Evidence(log, {}, ListenerOwner.OURS, exit=Exit(-9, "killed") if dead else None)


@dataclass
class FakeDeployer:
    world: World

    @contextmanager
    def deploy(self, launch: Launch, mark: str) -> Iterator[Running]:
        company = {mark.split(".")[1] for mark in self.world.running}
        allowed = {str(int(mark.split(".")[1]) - 1)} if launch.url.endswith(":9999") else set()
        assert company <= allowed, "two servers at once"
        if self.world.port_taken:
            raise PortTaken("port 8080 is taken by nginx")
        if self.world.fails_beside and launch.url.endswith(":9999"):
            raise EngineFailure(FailureKind.EXITED, "no memory for two")
        depth = int(launch.argv[-1])
        if depth in self.world.fails:
            raise self.world.fails[depth]
        self.world.marks.append(mark)
        self.world.running.add(mark)
        try:
            yield FakeRunning(self.world)
        except Exception:
            self.world.running.discard(mark)
            raise
        self.world.running.discard(mark)  # not in a finally: a SIGKILL leaves the server behind

    def sweep(self, marks: str) -> tuple[str, ...]:
        found = tuple(mark for mark in self.world.running if mark.startswith(marks))
        self.world.running -= set(found)
        return found


@dataclass
class FakeLoad:
    world: World

    def measure(
        self, target: Target, cell: Cell, prompts: Iterator[Prompt], limits: Limits, progress: Callable[[str], None]
    ) -> MeasuredCell:
        trials = {int(mark.split(".")[1]) for mark in self.world.running}
        if self.world.dies_measuring in trials:
            raise EngineFailure(FailureKind.DIED_MEASURING, "gone")
        progress("1 request")
        next(prompts)
        estimate = Estimate(1.0, 0.9, 1.1, 4)
        metrics = {MetricName.PER_USER_SPEED: estimate}
        return MeasuredCell(Measurement(cell, 0.0, 1.0, metrics, {}, {Outcome.OK: 4}, 1.0), ())

    def duel(
        self,
        targets: tuple[Target, Target],
        cell: Cell,
        prompts: Iterator[Prompt],
        limits: Limits,
        progress: Callable[[str], None],
    ) -> tuple[MeasuredCell, MeasuredCell]:
        assert targets[0].url != targets[1].url
        assert len(self.world.running) == 2
        first = self.measure(targets[0], cell, prompts, limits, progress)
        return first, first

    def ask(self, target: Target, prompts: Iterable[Prompt], concurrency: int) -> tuple[Answer, ...]:
        if str(self.world.front_of) in {mark.split(".")[1] for mark in self.world.running}:
            return tuple(Answer(prompt.id, "", None, "stream-error: the engine has an issue") for prompt in prompts)
        return tuple(Answer(prompt.id, "text") for prompt in prompts)


@dataclass
class FakePrompts:
    info: WorkloadInfo = field(default_factory=lambda: WorkloadInfo("fake", "0", 100, {}))
    dealt: list[tuple[int, int]] = field(default_factory=list)

    def deal(self, lane: int, lanes: int) -> Iterator[Prompt]:
        self.dealt.append((lane, lanes))
        return iter([PROBE])


@dataclass
class FakeVerifier:
    world: World
    asked: list[Asked] = field(default_factory=list)

    def before(self, asked: Asked, evidence: Evidence, seen: Seen, answers: tuple[ProbeRun, ...]) -> Verification:
        self.asked.append(asked)
        bad = asked.candidate.speculation.depth == self.world.violated
        return Verification((Finding("speculation-live", Status.VIOLATED if bad else Status.OK, "on", "off"),))

    def after(self, asked: Asked, evidence: Evidence, seen: Seen, cells: Mapping[str, MeasuredCell]) -> Verification:
        return Verification((Finding("survived", Status.OK, "", ""),))

    def stopped(self, asked: Asked, gpu_before: int, gpu_after: int) -> Verification:
        kept = gpu_after > gpu_before
        return Verification(
            (Finding("memory-returned", Status.VIOLATED if kept else Status.OK, "", "", "", "", False),)
        )

    def state(self, verification: Verification) -> tuple[TrialState, str]:
        bad = verification.invalid_because
        return (TrialState.INVALID, bad.check) if bad else (TrialState.VALID, "")


class FakeJudge:
    """Keeps whatever is truly faster than the incumbent."""

    def decide(self, spec: CampaignSpec, history: History, trial: Trial) -> Verdict:
        if not trial.valid:
            return Verdict(Decision.REVERT, trial.state_reason, history.baseline.id)
        ratio = SPEED[trial.candidate.speculation.depth] / SPEED[history.incumbent.speculation.depth]
        decision = Decision.KEEP if ratio > 1 else Decision.TIE if ratio == 1 else Decision.REVERT
        return Verdict(decision, "", history.incumbent.id, Ratio(ratio, ratio - 0.01, ratio + 0.01, 4))

    def conclude(self, spec: CampaignSpec, history: History) -> Conclusion:
        return Conclusion(history.incumbent.id, history.incumbent.id != history.baseline.id, "")


class Silent:
    def event(self, event: Event, history: History) -> None:
        pass

    def progress(self, trial: int, text: str) -> None:
        pass
