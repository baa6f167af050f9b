"""One trial over fake rooms: the order of its steps, and what is kept of every way to end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import pytest

from spectune.domain.candidate import Candidate
from spectune.domain.errors import EngineFailure, FailureKind
from spectune.domain.events import Measured, TrialEnded, Verified
from spectune.domain.finding import Answer, ProbeRun, Status
from spectune.domain.history import History
from spectune.domain.ports import Limits, Proposal, Stop, Target
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import MeasuredCell, Purpose, TrialState
from spectune.domain.workload import Cell, Prompt
from tests.judge.lab import record
from tests.support.fake_rooms import PROBE, FakeEngine, FakeLoad, FakePrompts, FakeVerifier, World
from tests.support.loop import BESIDE, SPEC, campaign, finished


def test_a_valid_trial_is_proven_before_and_after_it_is_measured() -> None:
    world = finished()
    kinds = [event.kind for event in world.events if getattr(event, "trial", None) == 3]
    measured = ["measured"] * len(SPEC.cells)
    assert kinds == ["trial-started", "deployed", "verified", *measured, "verified", "trial-ended", "decided"]


def test_secrets_do_not_reach_the_ledger() -> None:
    assert "hush" not in repr(finished().events)


def test_the_baselines_answers_are_what_candidates_are_checked_against() -> None:
    world = World()
    verifier = FakeVerifier(world)
    campaign(world, verifier=verifier).run()
    assert [len(asked.baseline_probes) for asked in verifier.asked[:4]] == [0, 1, 2, 2]


@dataclass
class Asking(FakeLoad):
    """Notes how many prompts were asked together, and of how many users."""

    noted: list[tuple[int, int]] = field(default_factory=list)

    def ask(self, target: Target, prompts: Iterable[Prompt], concurrency: int) -> tuple[Answer, ...]:
        answers = super().ask(target, prompts, concurrency)
        self.noted.append((len(answers), concurrency))
        return answers


def test_probes_are_asked_alone_and_by_as_many_users_as_are_measured() -> None:
    world = World()
    load = Asking(world)
    campaign(world, load=load).run()
    users = max(SPEC.workload.concurrency)
    assert load.noted[:2] == [(1, 1), (users, users)]
    kept = History.of(world.events).trials[3].probes
    assert [(probes.users, len(probes.answers)) for probes in kept] == [(1, 1), (users, 1)]


HUNG = Answer("p", "", None, "timeout-first-token: no byte")


class Hanging(Asking):
    def ask(self, target: Target, prompts: Iterable[Prompt], concurrency: int) -> tuple[Answer, ...]:
        super().ask(target, prompts, concurrency)
        return (HUNG,)


def test_a_server_that_hangs_is_not_asked_every_probe() -> None:
    world = World()
    load = Hanging(world)
    campaign(world, load=load, probes=tuple(replace(PROBE, id=f"p{n}") for n in range(9))).run()
    assert History.of(world.events).trials[1].probes == (ProbeRun(1, (HUNG, HUNG)),)
    assert set(load.noted) == {(1, 1)}


def test_every_cell_of_a_deployment_has_prompts_of_its_own() -> None:
    prompts = FakePrompts()
    campaign(World(), prompts=prompts).run()
    lanes = prompts.dealt[: len(SPEC.cells)]
    assert lanes == [(lane, len(SPEC.cells) + 1) for lane in range(1, len(SPEC.cells) + 1)]
    assert prompts.dealt == lanes * 7


@dataclass
class Taking(FakeLoad):
    """Asks two prompts a cell, and notes them by trial."""

    taken: dict[int, list[str]] = field(default_factory=dict)

    def measure(
        self, target: Target, cell: Cell, prompts: Iterator[Prompt], limits: Limits, progress: Callable[[str], None]
    ) -> MeasuredCell:
        asked = [next(prompts).id for _ in range(2)]
        for mark in self.world.running:
            self.taken.setdefault(int(mark.split(".")[1]), []).extend(asked)
        measured = super().measure(target, cell, iter([PROBE]), limits, progress)
        return replace(measured, records=tuple(record(name, "chat", 40.0) for name in asked))


@dataclass
class Endless(FakePrompts):
    def deal(self, lane: int, lanes: int) -> Iterator[Prompt]:
        return (replace(PROBE, id=f"{lane}/{number}") for number in count())


@pytest.mark.parametrize("spec", [SPEC, BESIDE])
def test_the_pairs_of_a_confirmation_are_asked_what_nobody_was_asked_before(spec: CampaignSpec) -> None:
    spec = replace(spec, budget=replace(spec.budget, confirm_pairs=2))
    world = World()
    load = Taking(world)
    campaign(world, spec, load=load, prompts=Endless()).run()
    purposes = {trial.number: trial.purpose for trial in History.of(world.events).ordered}
    explored = [load.taken[n] for n, purpose in purposes.items() if purpose is not Purpose.CONFIRM]
    confirmed = [load.taken[n] for n, purpose in purposes.items() if purpose is Purpose.CONFIRM]

    def each(*places: int) -> list[str]:
        return [f"{lane}/{place}" for lane in range(1, len(spec.cells) + 1) for place in places]

    assert explored == len(explored) * [each(0, 1)]
    assert confirmed == [each(2, 3), each(2, 3), each(4, 5), each(4, 5)]


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
    assert (ended.state, ended.log.splitlines()[-1]) == (TrialState.INVALID, "killed")
    assert not world.running


class Reading(FakeEngine):
    """Finds the cause of a death where the log tells it."""

    def diagnose(self, failure: EngineFailure) -> EngineFailure:
        return EngineFailure(failure.kind, failure.log_tail.splitlines()[0], "", failure.log_tail)


def test_a_cause_is_looked_for_above_all_that_follows_from_it() -> None:
    world = World(dies_measuring=4)
    campaign(world, engine=Reading(world)).run()
    ended = next(event for event in world.events if isinstance(event, TrialEnded) and event.trial == 4)
    assert ended.reason == "died-measuring: the cause"
    assert len(ended.log) == 4000  # the ledger keeps the end


def test_a_server_that_dies_while_asked_for_answers_is_invalid_with_its_last_words() -> None:
    world = World(dies_asked=4)
    campaign(world).run()
    ended = next(event for event in world.events if isinstance(event, TrialEnded) and event.trial == 4)
    assert (ended.state, ended.reason) == (TrialState.INVALID, "out-of-memory: no memory")
    assert ended.log.splitlines()[-1] == "killed"
    assert any(isinstance(event, Verified) and event.trial == 4 for event in world.events)
    assert not any(isinstance(event, Measured) and event.trial == 4 for event in world.events)
    assert not world.running


def test_a_front_that_goes_on_for_a_moment_after_its_engine_died_is_found_out() -> None:
    world = World(front_of=4)
    campaign(world).run()
    ended = next(event for event in world.events if isinstance(event, TrialEnded) and event.trial == 4)
    assert (ended.state, ended.reason) == (TrialState.INVALID, "out-of-memory: no memory")
    assert ended.log.splitlines()[-1] == "log of the server"


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


class Once:
    """Proposes the baseline, and nothing more."""

    def propose(self, spec: CampaignSpec, history: History) -> Proposal | Stop:
        return Stop("") if history.trials else Proposal(Candidate(), Purpose.BASELINE, "")


@pytest.mark.parametrize(
    ("gpu", "status", "looks"),
    [([5, 9, 7, 5], Status.OK, 4), ([5, *[9] * 99], Status.VIOLATED, 0), ([None, 9], None, 2), ([5, None], None, 2)],
)
def test_a_stopped_server_gives_its_memory_back(gpu: list[int | None], status: Status | None, looks: int) -> None:
    world = World()
    told = iter(gpu)
    seen: list[int | None] = []

    def used() -> int | None:
        seen.append(next(told, 5))
        return seen[-1]

    campaign(world, strategy=Once(), gpu_memory=used).run()
    found = [f for f in History.of(world.events).trials[1].verification.findings if f.check == "memory-returned"]
    assert [f.status for f in found] == ([] if status is None else [status])
    assert not looks or len(seen) == looks
