"""What every Deployer must do. A suite for an implementation subclasses DeployerContract and gives it two fixtures."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Protocol

import pytest

from spectune.domain.deployment import Launch, ListenerOwner
from spectune.domain.errors import EngineFailure, FailureKind, HostError, PortTaken
from spectune.domain.ports import Deployer


class LaunchMaker(Protocol):
    """Makes launches of a fake server (tests/deploy/fake_server.py) on a free port of the deployer's host."""

    def __call__(self, *options: str, ready_timeout_s: float = 30.0) -> Launch: ...


def new_mark() -> str:
    """A mark that no other test uses."""
    return f"test-{uuid.uuid4().hex}/1"


class DeployerContract:
    @pytest.fixture
    def deployer(self) -> Deployer:
        raise NotImplementedError

    @pytest.fixture
    def make(self) -> LaunchMaker:
        raise NotImplementedError

    def test_a_server_is_ready_inside_and_gone_after(self, deployer: Deployer, make: LaunchMaker) -> None:
        launch = make()
        before = time.time()
        with deployer.deploy(launch, new_mark()) as running:
            assert before - 1 <= running.started_unix <= time.time()
            assert 0 < running.ready_s < 30
            seen = running.observe(["/health", "/nowhere"])
            assert (seen.pages["/health"].status, seen.pages["/health"].body) == (200, "ok")
            assert seen.pages["/nowhere"].status == 404
            assert seen.listener is ListenerOwner.OURS
            assert seen.log.startswith("first line\nto stderr\n")
            assert seen.exit is None
            assert seen.started_unix == running.started_unix
            assert seen.rss_bytes is None or seen.rss_bytes > 1_000_000
        with deployer.deploy(launch, new_mark()) as again:
            assert again.pid != running.pid

    def test_each_start_has_its_own_log(self, deployer: Deployer, make: LaunchMaker) -> None:
        for _ in range(2):
            with deployer.deploy(make(), new_mark()) as running:
                assert running.observe().log.count("first line") == 1

    def test_errors_inside_pass_through_and_the_server_is_gone(self, deployer: Deployer, make: LaunchMaker) -> None:
        launch = make()
        with pytest.raises(ZeroDivisionError), deployer.deploy(launch, new_mark()):
            raise ZeroDivisionError
        with deployer.deploy(launch, new_mark()):
            pass

    def test_loading_is_waited_for(self, deployer: Deployer, make: LaunchMaker) -> None:
        with deployer.deploy(make("--load-s", "0.7"), new_mark()) as running:
            assert 0.6 < running.ready_s < 30

    def test_a_taken_port_is_an_error_and_nothing_is_started(self, deployer: Deployer, make: LaunchMaker) -> None:
        launch = make()
        with deployer.deploy(launch, new_mark()) as first:
            with pytest.raises(PortTaken), deployer.deploy(launch, new_mark()):
                raise AssertionError("deployed on a taken port")
            assert first.observe(["/health"]).pages["/health"].status == 200

    def test_an_exit_is_told_with_code_and_log(self, deployer: Deployer, make: LaunchMaker) -> None:
        with pytest.raises(EngineFailure) as caught, deployer.deploy(make("--exit-code", "7"), new_mark()):
            raise AssertionError("deployed a server that exits")
        assert caught.value.kind is FailureKind.EXITED
        assert "code 7" in caught.value.message
        assert "giving up" in caught.value.log_tail

    def test_never_ready_is_told_apart(self, deployer: Deployer, make: LaunchMaker) -> None:
        launch = make("--load-s", "60", ready_timeout_s=1.0)
        with pytest.raises(EngineFailure) as caught, deployer.deploy(launch, new_mark()):
            raise AssertionError("deployed a server that is never ready")
        assert caught.value.kind is FailureKind.NEVER_READY
        assert "503" in caught.value.message
        with deployer.deploy(Launch(launch.argv[:-2], {}, launch.url, "/health", (), None, "m"), new_mark()):
            pass

    def test_a_death_later_is_seen(self, deployer: Deployer, make: LaunchMaker) -> None:
        with deployer.deploy(make("--die-after", "2"), new_mark()) as running:
            assert running.observe(["/health"]).pages["/health"].status == 200
            deadline = time.monotonic() + 30
            while running.observe().exit is None and time.monotonic() < deadline:
                time.sleep(0.02)
            seen = running.observe(["/health"])
        assert seen.exit is not None
        assert seen.exit.code == 3
        assert "first line" in seen.exit.log_tail
        assert seen.listener is ListenerOwner.NONE
        assert (seen.pages["/health"].status, seen.pages["/health"].body) == (0, "")

    def test_a_missing_program_is_the_hosts_failure(self, deployer: Deployer, make: LaunchMaker) -> None:
        launch = make()
        missing = Launch(("/nonexistent/llama-server",), {}, launch.url, "/health", (), None, "m")
        with pytest.raises(HostError, match="/nonexistent/llama-server"), deployer.deploy(missing, new_mark()):
            raise AssertionError("deployed a missing program")

    def test_sweep_leaves_live_deployments_alone(self, deployer: Deployer, make: LaunchMaker) -> None:
        mark = new_mark()
        with deployer.deploy(make(), mark) as running:
            assert deployer.sweep(mark[:12]) == ()
            assert running.observe(["/health"]).pages["/health"].status == 200
        assert deployer.sweep(mark) == ()


def fake_server() -> Path:
    """The fake server's program."""
    return Path(__file__).parent.parent / "deploy" / "fake_server.py"
