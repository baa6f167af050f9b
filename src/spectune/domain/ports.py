"""Ports: what the loop needs from the rooms, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from spectune.domain.asked import Asked
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Counters, Evidence, Launch, Seen, Service
from spectune.domain.errors import EngineFailure
from spectune.domain.events import CampaignOpened, Event
from spectune.domain.finding import Answer, ProbeRun, Verification
from spectune.domain.history import History
from spectune.domain.knobs import Knob
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import MeasuredCell, Purpose, Trial, TrialState
from spectune.domain.verdict import Conclusion, Verdict
from spectune.domain.workload import Cell, Prompt, WorkloadInfo


class Clock(Protocol):
    """Time, so that simulated hours pass in seconds."""

    def now(self) -> float:
        """Seconds since the epoch, for people."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never jumps, for durations."""
        ...

    def sleep(self, seconds: float) -> None: ...


class Engine(Protocol):
    """An engine adapter: pure text in, values out."""

    @property
    def name(self) -> str: ...

    @property
    def knobs(self) -> Mapping[str, Knob]:
        """Canonical flag -> knob."""
        ...

    def baseline(self, service: Service) -> Candidate:
        """The candidate that leaves the service as it is, its own speculation recognised.

        Raises:
            InputError: when the service's settings contradict each other or name flags the engine lacks.
        """
        ...

    def launch(self, service: Service, candidate: Candidate) -> Launch:
        """The command line of a candidate on a service.

        Raises:
            InputError: when the candidate can't work on this engine; the message names the knob and the constraint.
        """
        ...

    def read(self, evidence: Evidence) -> Seen:
        """What the evidence says. Never raises on any text: what can't be read is None or absent."""
        ...

    def diagnose(self, failure: EngineFailure) -> EngineFailure:
        """The same failure with its cause named from the log, or the failure itself where no cause is found."""
        ...


class Running(Protocol):
    """A live deployment."""

    @property
    def pid(self) -> int: ...

    @property
    def started_unix(self) -> float: ...

    @property
    def ready_s(self) -> float: ...

    def observe(self, paths: Iterable[str] = ()) -> Evidence:
        """Fetches pages (none that answers: status 0) and everything else there is to see."""
        ...


class Deployer(Protocol):
    """Turns launches into running servers and back into nothing."""

    def deploy(self, launch: Launch, mark: str) -> AbstractContextManager[Running]:
        """Starts, waits for readiness, yields, and leaves no process and no listener behind.

        Args:
            mark: unique to this start; put into the process environment, so that leftovers are recognised.

        Raises:
            PortTaken: another program listens there.
            EngineFailure: the server exited or never got ready; kind EXITED or NEVER_READY, with its log's end.
            HostError: the program can't be started at all.
        """
        ...

    def sweep(self, marks: str) -> tuple[str, ...]:
        """Ends servers left behind by killed runs whose mark begins with `marks`; names each that was ended."""
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """A server to measure.

    Attributes:
        url: base URL, without /v1.
        model_id: model name to send.
        counters: reads the server's counters now; None where they can't be read.
        headers: extra request headers (API key).
        keep_alive: see Launch.
    """

    url: str
    model_id: str
    counters: Callable[[], Counters | None]
    headers: Mapping[str, str]
    keep_alive: bool = True


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop measuring a cell: at `seconds`, or earlier at `precision` (half-width of the per-user speed's
    interval, relative), but never before `min_requests` requests of the steady window."""

    seconds: float
    precision: float
    min_requests: int = 4


class LoadGenerator(Protocol):
    """Sends requests and times them."""

    def measure(
        self, target: Target, cell: Cell, prompts: Iterator[Prompt], limits: Limits, progress: Callable[[str], None]
    ) -> MeasuredCell:
        """Measures one cell.

        Raises:
            EngineFailure: kind DIED_MEASURING, when the server stops answering altogether.
        """
        ...

    def duel(
        self,
        targets: tuple[Target, Target],
        cell: Cell,
        prompts: Iterator[Prompt],
        limits: Limits,
        progress: Callable[[str], None],
    ) -> tuple[MeasuredCell, MeasuredCell]:
        """Measures one cell on two servers of the same machine in short turns with the same prompts, so that what
        disturbs the machine disturbs both alike; only one of them works at a time.

        Args:
            limits: of each server.

        Raises:
            EngineFailure: kind DIED_MEASURING, when one of them stops answering altogether.
        """
        ...

    def ask(self, target: Target, prompts: Iterable[Prompt], concurrency: int) -> tuple[Answer, ...]:
        """Greedy answers (temperature 0, fixed seed), in the prompts' order; a failure is an answer with an error."""
        ...


class PromptSource(Protocol):
    """Where prompts come from."""

    @property
    def info(self) -> WorkloadInfo: ...

    def deal(self, lane: int, lanes: int) -> Iterator[Prompt]:
        """Prompts of one lane. Lanes share none, a lane repeats none, and the same lane is always the same sequence,
        domains taking turns. Ends when there are no more."""
        ...


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to try next, and why.

    Attributes:
        beside: measured at the same time in turns, on a second server; a trial of its own.
    """

    candidate: Candidate
    purpose: Purpose
    reason: str
    beside: Candidate | None = None


class Verifier(Protocol):
    """Proves what runs. Depends on its arguments alone."""

    def before(self, asked: Asked, evidence: Evidence, seen: Seen, answers: tuple[ProbeRun, ...]) -> Verification:
        """Findings about a fresh deployment, from read-back settings and greedy answers."""
        ...

    def after(self, asked: Asked, evidence: Evidence, seen: Seen, cells: Mapping[str, MeasuredCell]) -> Verification:
        """Findings that need the measurements: drafts really happened, the server survived."""
        ...

    def stopped(self, asked: Asked, gpu_before: int, gpu_after: int) -> Verification:
        """Findings about what a stopped deployment left behind: GPU memory in use before its start and now, bytes."""
        ...

    def state(self, verification: Verification) -> tuple[TrialState, str]:
        """How the trial ends, and why: INVALID by the first blocking violation, UNKNOWN by what could not be told."""
        ...


def launch_of(engine: Engine, service: Service, candidate: Candidate) -> Launch:
    """The launch of a candidate, its variables in the environment.

    Raises:
        InputError: as Engine.launch.
    """
    with_variables = replace(service, env={**service.env, **candidate.environment})
    return engine.launch(with_variables, candidate.without_environment)


@dataclass(frozen=True, slots=True)
class Stop:
    """Nothing more is to be tried, and why; what was left out for lack of budget is named."""

    reason: str


class Strategy(Protocol):
    """Decides what to try."""

    def propose(self, spec: CampaignSpec, history: History) -> Proposal | Stop:
        """The next trial, or why there is none. Depends on its arguments alone."""
        ...


class Judge(Protocol):
    """Decides what it was worth. Depends on its arguments alone."""

    def decide(self, spec: CampaignSpec, history: History, trial: Trial) -> Verdict: ...

    def conclude(self, spec: CampaignSpec, history: History) -> Conclusion: ...


@dataclass(frozen=True, slots=True)
class CampaignRow:
    """One line of the list of campaigns.

    Attributes:
        simulated: what its figures come from where that is no real engine; "" for a real one.
    """

    id: str
    name: str
    opened_at: float
    trials: int
    ended: bool
    winner: str
    simulated: str = ""


class Ledger(Protocol):
    """The append-only record."""

    def open(self, opened: CampaignOpened) -> str:
        """Starts a campaign and returns its id.

        Raises:
            LedgerError: when it can't be written.
        """
        ...

    def append(self, campaign: str, event: Event) -> None:
        """Writes one event durably before it returns.

        Raises:
            LedgerError: when it can't be written.
        """
        ...

    def events(self, campaign: str) -> Iterator[Event]:
        """All events of a campaign, in order, with the raw records."""
        ...

    def campaigns(self) -> tuple[CampaignRow, ...]:
        """Newest first."""
        ...


class Observer(Protocol):
    """Hears what happens, for progress on a terminal; must not change anything."""

    def event(self, event: Event, history: History) -> None: ...

    def progress(self, trial: int, text: str) -> None: ...
