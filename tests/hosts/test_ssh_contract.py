from __future__ import annotations

import pytest

from spectune.domain.hosts import Host
from spectune.hosts.ssh import Ssh
from tests.contracts.host import HostContract


class TestSsh(HostContract):
    @pytest.fixture
    def host(self, shared_ssh: Ssh) -> Host:
        return shared_ssh
