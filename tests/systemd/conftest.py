from __future__ import annotations

from collections.abc import Iterator

import pytest

from spectune.assemble.clock import SystemClock
from spectune.assemble.ways import Way
from spectune.hosts.ssh import Ssh
from tests.support.testhost.host import CannotBoot
from tests.systemd.box import PORT, Bench, Box, address, box, fake_unit

NAME = "llm.service"


@pytest.fixture(scope="session")
def shared_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    try:
        with box(tmp_path_factory.mktemp("box")) as made:
            yield made
    except CannotBoot as error:
        pytest.skip(f"no systemd can be booted here: {error}")


@pytest.fixture(scope="session")
def shared_ssh(shared_box: Box) -> Iterator[Ssh]:
    with Ssh(address(shared_box), SystemClock()) as ssh:
        yield ssh


@pytest.fixture(scope="session")
def way(shared_ssh: Ssh) -> Iterator[Way]:
    with Way(shared_ssh, "", PORT) as way:
        yield way


@pytest.fixture
def bench(shared_box: Box, shared_ssh: Ssh, way: Way) -> Iterator[Bench]:
    """A service of the fake server, not started, of which nothing is left afterwards."""
    shared_box.unit(NAME, fake_unit())
    yield Bench(shared_box, shared_ssh, NAME, way)
    shared_box.host.run("systemctl", "kill", "--signal=KILL", NAME)
    shared_box.host.run("systemctl", "stop", NAME)
    shared_box.host.run("systemctl", "reset-failed", NAME)
    shared_box.host.run(
        "rm", "-rf", f"/etc/systemd/system/{NAME}", f"/etc/systemd/system/{NAME}.d", "/var/lib/spectune"
    )
    shared_box.host.run("systemctl", "daemon-reload")
