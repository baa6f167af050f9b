from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spectune.assemble.clock import SystemClock
from spectune.deploy.process import LocalProcesses
from spectune.domain.deployment import Launch
from tests.contracts.deployer import LaunchMaker, fake_server
from tests.deploy import parent
from tests.support.ports import fresh_port


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()


@pytest.fixture
def deployer(tmp_path: Path, clock: SystemClock) -> LocalProcesses:
    return LocalProcesses(tmp_path / "logs", clock, grace_s=1.0)


@pytest.fixture
def make() -> LaunchMaker:
    def launch(*options: str, ready_timeout_s: float = 30.0) -> Launch:
        port = fresh_port()
        argv = (sys.executable, "-I", "-S", str(fake_server()), "--port", str(port), *options)
        return Launch(argv, {}, f"http://127.0.0.1:{port}", "/health", (), None, "m", ready_timeout_s)

    return launch


class Parent:
    """A process that runs tests/deploy/parent.py, forked from this one because imports take longer than the tests."""

    def __init__(self, arguments: list[str]) -> None:
        output, write = os.pipe()
        with warnings.catch_warnings():
            # Later Pythons warn of forks while other threads run; this child touches none of their locks.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            code = 70
            try:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                os.dup2(write, 1)
                code = parent.run(arguments)
            finally:
                os._exit(code)
        os.close(write)
        self.output = os.fdopen(output)
        self.code: int | None = None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def wait(self, seconds: float = 20.0) -> int | None:
        until(lambda: self.poll() is not None, seconds)
        return self.code


StartParent = Callable[..., tuple[Parent, int]]


@pytest.fixture
def start_parent(tmp_path: Path) -> Iterator[StartParent]:
    """Starts a parent and returns it with the server's pid (0 when not asked to wait)."""
    parents: list[Parent] = []

    def start(
        launch: Launch, mark: str, grace_s: float = 1.0, wait: bool = True, helper: bool = False
    ) -> tuple[Parent, int]:
        numbers = [str(grace_s), str(launch.ready_timeout_s), "helper" if helper else ""]
        parents.append(Parent([str(tmp_path / "logs"), launch.url, mark, *numbers, *launch.argv]))
        assert parents[-1].output.readline() == "starting\n"
        return parents[-1], int(parents[-1].output.readline()) if wait else 0

    yield start
    for one in parents:
        one.kill()
        one.wait()
        one.output.close()


def until(condition: Callable[[], object], seconds: float) -> float:
    """Waits for a condition and returns how long it took; fails when it does not come."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, f"not within {seconds} s"
        time.sleep(0.01)
    return time.monotonic() - started
