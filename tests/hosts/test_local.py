from __future__ import annotations

import pytest

from spectune.assemble.clock import SystemClock
from spectune.domain.hosts import Host
from spectune.hosts.local import Local
from tests.contracts.host import HostContract


class TestLocal(HostContract):
    @pytest.fixture
    def host(self, clock: SystemClock) -> Host:
        return Local(clock)
