from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spectune.assemble.clock import SystemClock
from spectune.domain.hosts import HostAddress
from spectune.hosts.ssh import Ssh
from tests.hosts.sshd import ALIAS, Sshd


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()


@pytest.fixture(scope="session")
def shared_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """For tests that leave it as it is."""
    server = Sshd(tmp_path_factory.mktemp("sshd"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def shared_ssh(shared_sshd: Sshd) -> Iterator[Ssh]:
    with Ssh(HostAddress(ALIAS, config=str(shared_sshd.config)), SystemClock()) as host:
        yield host


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """For tests that do something to it."""
    server = Sshd(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def ssh(sshd: Sshd, clock: SystemClock) -> Iterator[Ssh]:
    with Ssh(HostAddress(ALIAS, config=str(sshd.config)), clock, alive_s=1) as host:
        yield host
