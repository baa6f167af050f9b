"""The loop with fake rooms: order of steps, what ends up in the ledger, and going on after a kill at any moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from spectune.campaign import Campaign, Rooms
from spectune.domain.asked import Asked
from spectune.domain.candidate import Candidate, Method
from spectune.domain.deployment import Capacity, Evidence, Exit, Launch, ListenerOwner, Seen, Service
from spectune.domain.errors import EngineFailure, EngineUnusable, FailureKind, InputError, LedgerError, PortTaken
from spectune.domain.estimate import Estimate, Ratio
from spectune.domain.events import CampaignOpened, Event, Measured, TrialEnded, Verified
from spectune.domain.finding import Answer, Finding, ProbeRun, Status, Verification
from spectune.domain.history import History
from spectune.domain.knobs import Knob
from spectune.domain.measurement import Measurement, Outcome
from spectune.domain.metrics import MetricName
from spectune.domain.ports import CampaignRow, Limits, Proposal, Running, Target
from spectune.domain.spec import BudgetSpec, CampaignSpec, SearchSpec, SpeculationSpace
from spectune.domain.trial import MeasuredCell, Purpose, Trial, TrialState
from spectune.domain.verdict import Conclusion, Decision, Verdict
from spectune.domain.workload import Cell, Message, Prompt, WorkloadInfo
from spectune.search import Staged
from tests.support.histories import opened

SPEED = {0: 10.0, 1: 14.0, 2: 18.0, 3: 16.0}
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
        return Evidence("log of the server", {}, ListenerOwner.OURS, exit=Exit(-9, "killed") if dead else None)


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


SPEC = CampaignSpec(
    name="t",
    search=SearchSpec(speculation=(SpeculationSpace(Method.DRAFT, depths=(1, 2, 3), draft_model="/d"),)),
    budget=BudgetSpec(confirm_pairs=1),
)


BESIDE = replace(SPEC, budget=BudgetSpec(confirm_pairs=1, side_by_side=True))


def campaign(world: World, spec: CampaignSpec = SPEC) -> Campaign:
    if not world.events:
        world.events.append(opened(spec))
    rooms = Rooms(
        engine=FakeEngine(world),
        deployer=FakeDeployer(world),
        load=FakeLoad(world),
        prompts=FakePrompts(),
        probes=(PROBE,),
        verifier=FakeVerifier(world),
        strategy=Staged(),
        judge=FakeJudge(),
        ledger=FakeLedger(world),
        clock=FakeClock(world),
        observer=Silent(),
        beside=lambda service: replace(service, port=9999),
        load_average=lambda: 0.5,
        version="0",
    )
    return Campaign(rooms, "c1", spec, opened().service)


def outline(world: World) -> list[tuple[int, int, Purpose, TrialState]]:
    """Trials that count: number, depth, purpose and state."""
    return [(t.number, t.candidate.speculation.depth, t.purpose, t.state) for t in History.of(world.events).ordered]


def finished(spec: CampaignSpec = SPEC) -> World:
    world = World()
    campaign(world, spec).run()
    return world


def test_goes_from_baseline_to_confirmed_winner() -> None:
    world = finished()
    history = History.of(world.events)
    assert [depth for _, depth, _, _ in outline(world)] == [0, 0, 1, 2, 3, 0, 2]
    assert history.conclusion is not None
    assert history.candidates[history.conclusion.winner or ""].speculation.depth == 2
    assert not world.running


def test_a_valid_trial_is_proven_before_and_after_it_is_measured() -> None:
    world = finished()
    kinds = [event.kind for event in world.events if getattr(event, "trial", None) == 3]
    measured = ["measured"] * len(SPEC.cells)
    assert kinds == ["trial-started", "deployed", "verified", *measured, "verified", "trial-ended", "decided"]


def test_secrets_do_not_reach_the_ledger() -> None:
    assert "hush" not in repr(finished().events)


def test_the_baselines_answers_are_what_candidates_are_checked_against() -> None:
    world = World()
    run = campaign(world)
    run.run()
    verifier = run._rooms.verifier
    assert isinstance(verifier, FakeVerifier)
    assert [len(asked.baseline_probes) for asked in verifier.asked[:4]] == [0, 1, 2, 2]


def test_probes_are_asked_alone_and_by_as_many_users_as_are_measured() -> None:
    world = World()
    run = campaign(world)
    load = run._rooms.load
    asked: list[tuple[int, int]] = []

    def ask(target: Target, prompts: Iterable[Prompt], concurrency: int) -> tuple[Answer, ...]:
        answers = FakeLoad.ask(load, target, prompts, concurrency)  # type: ignore[arg-type]
        asked.append((len(answers), concurrency))
        return answers

    run._rooms = replace(run._rooms, load=type("Asked", (FakeLoad,), {"ask": staticmethod(ask)})(world))
    run.run()
    users = max(SPEC.workload.concurrency)
    assert asked[:2] == [(1, 1), (users, users)]
    kept = History.of(world.events).trials[3].probes
    assert [(probes.users, len(probes.answers)) for probes in kept] == [(1, 1), (users, 1)]


def test_a_server_that_hangs_is_not_asked_every_probe() -> None:
    world = World()
    run = campaign(world)
    hung = Answer("p", "", None, "timeout-first-token: no byte")
    asked: list[int] = []

    def ask(target: Target, prompts: Iterable[Prompt], concurrency: int) -> tuple[Answer, ...]:
        asked.append(concurrency)
        return (hung,)

    many = tuple(replace(PROBE, id=f"p{n}") for n in range(9))
    broken = type("Hung", (FakeLoad,), {"ask": staticmethod(ask)})(world)
    run._rooms = replace(run._rooms, load=broken, probes=many)
    run.run()
    assert History.of(world.events).trials[1].probes == (ProbeRun(1, (hung, hung)),)
    assert set(asked) == {1}


@pytest.mark.parametrize(
    ("gpu", "status", "looks"),
    [([5, 9, 7, 5], Status.OK, 4), ([5, *[9] * 99], Status.VIOLATED, 0), ([None, 9], None, 2), ([5, None], None, 2)],
)
def test_a_stopped_server_gives_its_memory_back(gpu: list[int | None], status: Status | None, looks: int) -> None:
    world = World(refused=1)
    run = campaign(world, replace(SPEC, budget=BudgetSpec(trials=1, confirm_pairs=1)))
    told = iter(gpu)
    seen: list[int | None] = []

    def used() -> int | None:
        seen.append(next(told, 5))
        return seen[-1]

    run._rooms = replace(run._rooms, gpu_memory=used)
    run._try(Proposal(Candidate(), Purpose.BASELINE, ""))
    found = [f for f in History.of(world.events).trials[1].verification.findings if f.check == "memory-returned"]
    assert [f.status for f in found] == ([] if status is None else [status])
    assert not looks or len(seen) == looks


def test_every_cell_of_a_deployment_has_prompts_of_its_own() -> None:
    world = World()
    run = campaign(world)
    run.run()
    prompts = run._rooms.prompts
    assert isinstance(prompts, FakePrompts)
    lanes = prompts.dealt[: len(SPEC.cells)]
    assert lanes == [(lane, len(SPEC.cells) + 1) for lane in range(1, len(SPEC.cells) + 1)]
    assert prompts.dealt == lanes * 7  # the same in every arm


def test_a_start_that_fails_is_invalid_with_its_named_cause_and_log() -> None:
    world = World(fails={2: EngineFailure(FailureKind.EXITED, "exit code 1", "", "cannot allocate")})
    campaign(world).run()
    ended = next(event for event in world.events if isinstance(event, TrialEnded) and event.trial == 4)
    assert ended.state is TrialState.INVALID
    assert ended.reason == "out-of-memory: no memory"
    assert ended.log == "cannot allocate"
    assert not world.running


def test_a_server_that_dies_while_measured_is_invalid_with_its_last_words() -> None:
    world = World(dies_measuring=4)
    campaign(world).run()
    ended = next(event for event in world.events if isinstance(event, TrialEnded) and event.trial == 4)
    assert (ended.state, ended.log) == (TrialState.INVALID, "killed")
    assert not world.running


def test_a_server_that_dies_while_asked_for_answers_is_invalid_with_its_last_words() -> None:
    world = World(dies_asked=4)
    campaign(world).run()
    ended = next(event for event in world.events if isinstance(event, TrialEnded) and event.trial == 4)
    assert (ended.state, ended.reason, ended.log) == (TrialState.INVALID, "out-of-memory: no memory", "killed")
    assert any(isinstance(event, Verified) and event.trial == 4 for event in world.events)
    assert not any(isinstance(event, Measured) and event.trial == 4 for event in world.events)
    assert not world.running


def test_a_violated_check_ends_the_trial_before_it_is_measured() -> None:
    world = World(violated=1)
    campaign(world).run()
    trial = History.of(world.events).trials[3]
    assert (trial.state, trial.state_reason) == (TrialState.INVALID, "speculation-live")
    assert not any(isinstance(event, Measured) and event.trial == 3 for event in world.events)
    assert sum(isinstance(event, Verified) and event.trial == 3 for event in world.events) == 1


def test_what_the_engine_refuses_is_pruned_and_never_deployed() -> None:
    world = World(refused=2)
    campaign(world).run()
    trial = History.of(world.events).trials[4]
    assert (trial.state, trial.state_reason) == (TrialState.PRUNED, "k is too deep for this model")
    assert trial.deployment is None


def test_a_baseline_that_does_not_serve_ends_the_campaign() -> None:
    world = World(fails={0: EngineFailure(FailureKind.EXITED, "exit code 1")})
    with pytest.raises(EngineUnusable, match="no memory"):
        campaign(world).run()
    assert History.of(world.events).conclusion is not None
    assert len(outline(world)) == 1


def test_a_taken_port_is_the_users_to_free_and_the_campaign_goes_on_afterwards() -> None:
    world = World(port_taken=True)
    with pytest.raises(PortTaken):
        campaign(world).run()
    world.port_taken = False
    campaign(world).run()
    assert outline(world) == outline(finished())


@pytest.mark.parametrize("before_write", [False, True])
@pytest.mark.parametrize("moment", range(1, len(finished().events)))
def test_goes_on_after_a_kill_at_any_moment(moment: int, before_write: bool) -> None:
    world = World(kill_at=moment, kill_before_write=before_write)
    with pytest.raises(Killed):
        campaign(world).run()
    world.kill_at = None
    if History.of(world.events).conclusion is None:
        campaign(world).run()
    assert outline(world) == outline(finished())
    assert not world.running


@pytest.mark.parametrize("before_write", [False, True])
@pytest.mark.parametrize("moment", range(1, len(finished(BESIDE).events)))
def test_goes_on_after_a_kill_side_by_side(moment: int, before_write: bool) -> None:
    world = World(kill_at=moment, kill_before_write=before_write)
    with pytest.raises(Killed):
        campaign(world, BESIDE).run()
    world.kill_at = None
    if History.of(world.events).conclusion is None:
        campaign(world, BESIDE).run()
    assert outline(world) == outline(finished(BESIDE))
    assert not world.running


def test_winner_and_baseline_are_confirmed_side_by_side() -> None:
    world = finished(BESIDE)
    assert outline(world)[-2:] == [
        (6, 0, Purpose.CONFIRM, TrialState.VALID),
        (7, 2, Purpose.CONFIRM, TrialState.VALID),
    ]
    measured = [event.trial for event in world.events if isinstance(event, Measured) and event.trial > 5]
    assert measured == [6, 7] * len(SPEC.cells)
    assert [mark for mark in world.marks if mark.startswith(("c1.6", "c1.7"))] == ["c1.6.1", "c1.7.1"]


@pytest.mark.parametrize("trouble", [{"dies_measuring": 7}, {"fails_beside": True}])
def test_servers_that_do_not_get_on_are_confirmed_one_after_the_other(trouble: dict[str, Any]) -> None:
    world = World(**trouble)
    campaign(world, BESIDE).run()
    ends = [(depth, state) for _, depth, purpose, state in outline(world) if purpose is Purpose.CONFIRM]
    pruned, valid = TrialState.PRUNED, TrialState.VALID
    assert ends == [(0, pruned), (2, pruned), (0, valid), (2, valid)]
    assert "side by side did not work" in History.of(world.events).trials[6].state_reason
    assert not world.running


def test_an_attempt_that_was_cut_off_has_a_mark_of_its_own() -> None:
    world = World(kill_at=5)
    with pytest.raises(Killed):
        campaign(world).run()
    world.kill_at = None
    campaign(world).run()
    assert world.marks[:2] == ["c1.1.1", "c1.1.2"]


def test_a_full_disk_stops_the_loop_at_once() -> None:
    world = World()
    run = campaign(world)
    ledger = run._rooms.ledger
    assert isinstance(ledger, FakeLedger)

    def full(campaign: str, event: Event) -> None:
        raise LedgerError("no space left for the ledger")

    run._rooms = replace(run._rooms, ledger=type("Full", (FakeLedger,), {"append": staticmethod(full)})(world))
    with pytest.raises(LedgerError, match="no space"):
        run.run()
    assert not world.marks
