"""How long the service is kept waiting: from ready to seen, and everything that is not the service's own time."""

from __future__ import annotations

import threading
import time

import pytest

from tests.contracts.deployer import new_mark
from tests.systemd.box import Bench

pytestmark = pytest.mark.systemd

LOAD_S = 1.0


def test_readiness_is_seen_at_once_and_a_deployment_costs_little_beside_the_service(bench: Bench) -> None:
    deployer, launch = bench.deployer(), bench.launch("--load-s", str(LOAD_S))
    ready: list[float] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            if bench.way.fetch("/health", 1.0).status == 200:
                ready.append(time.monotonic())
                return

    begun = time.monotonic()
    watcher = threading.Thread(target=watch)
    deployment = deployer.deploy(launch, new_mark())
    watcher.start()
    with deployment as running:
        seen = time.monotonic()
        watcher.join(5)
    over.set()
    assert seen - ready[0] < 0.3
    assert seen - begun - running.ready_s < 2.0
    assert time.monotonic() - begun - running.ready_s < 4.0
