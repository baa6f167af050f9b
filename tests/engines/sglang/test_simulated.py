"""The adapter against a live simulated SGLang. Both were written from the same facts, apart from each other."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from spectune.assemble.clock import SystemClock
from spectune.deploy.process import LocalProcesses
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Meaning, Seen, Service
from spectune.domain.errors import EngineFailure, FailureKind
from spectune.domain.ports import Engine
from spectune.engines.sglang import SGLang
from tests.contracts.live_engine import LiveEngineContract
from tests.support.ports import fresh_port

ENGINE = SGLang(version="0.5.15")
MODEL = "Org/model"


@pytest.fixture
def service() -> Service:
    entry = ("-m", "spectune.sim.sglang")
    env = {"SPECTUNE_SIM_LOAD_SECONDS": "0"}
    port = fresh_port()
    return Service("sglang", sys.executable, MODEL, {"tp-size": 4}, env, "127.0.0.1", port, MODEL, 30.0, entry)


@pytest.fixture
def deployer(tmp_path: Path) -> LocalProcesses:
    return LocalProcesses(tmp_path, SystemClock())


def seen(deployer: LocalProcesses, service: Service, candidate: Candidate) -> Seen:
    launch = ENGINE.launch(service, candidate)
    with deployer.deploy(launch, f"sim.{candidate.id}") as running:
        return ENGINE.read(running.observe(launch.probe_paths))


class TestLive(LiveEngineContract):
    @pytest.fixture
    def engine(self) -> Engine:
        return ENGINE

    @pytest.fixture(
        params=[
            Speculation(),
            Speculation(Method.MTP, 3),
            Speculation(Method.EAGLE3, 4, draft_model="Org/head"),
            Speculation(Method.DRAFT, 2, draft_model="Org/draft"),
            Speculation(Method.NGRAM, 7),
            Speculation(Method.MTP, 3, schedule=((1, 3), (16, 1), (64, 0))),
        ],
        ids=lambda speculation: speculation.label,
    )
    def candidate(self, request: pytest.FixtureRequest) -> Candidate:
        return Candidate(request.param)


def test_it_says_that_it_is_simulated(deployer: LocalProcesses, service: Service) -> None:
    found = seen(deployer, service, Candidate())
    assert found.version == "0.5.15+sim"
    assert found.invalid_output is not None
    assert not found.invented_text


def test_the_published_room_reads_back_and_a_limit_of_its_own_is_named(
    deployer: LocalProcesses, service: Service
) -> None:
    found = [seen(deployer, service, Candidate(Speculation(Method.MTP, k))) for k in (1, 2)]
    rooms = [one.capacity for one in found]
    assert [(room.kv_tokens, room.max_running) for room in rooms] == [(455_357, 26), (377_207, 21)]
    names = {adjustment.name for adjustment in found[0].adjustments}
    assert any("running" in name for name in names), names


def test_a_fallback_from_a_schedule_is_another_candidate(deployer: LocalProcesses, service: Service) -> None:
    faulty = replace(service, env={**service.env, "SPECTUNE_SIM_FAULTS": "adaptive-fallback"})
    found = seen(deployer, faulty, Candidate(Speculation(Method.MTP, 3, schedule=((1, 3), (16, 1)))))
    assert any(adjustment.meaning is Meaning.INVALID for adjustment in found.adjustments)


def test_wrong_settings_do_not_read_back_as_asked(deployer: LocalProcesses, service: Service) -> None:
    faulty = replace(service, env={**service.env, "SPECTUNE_SIM_FAULTS": "wrong-settings"})
    assert seen(deployer, faulty, Candidate(Speculation(Method.MTP, 3))).depth not in {3, None}


@pytest.mark.parametrize(
    ("fault", "kind"), [("oom-above-depth=2", FailureKind.OUT_OF_MEMORY), ("crash-at-start", FailureKind.EXITED)]
)
def test_a_start_that_fails_has_its_cause_named(
    deployer: LocalProcesses, service: Service, fault: str, kind: FailureKind
) -> None:
    faulty = replace(service, env={**service.env, "SPECTUNE_SIM_FAULTS": fault})
    with pytest.raises(EngineFailure) as caught:
        seen(deployer, faulty, Candidate(Speculation(Method.MTP, 3)))
    named = ENGINE.diagnose(caught.value)
    assert named.kind is kind
    assert named.message != caught.value.message
    assert named.advice
