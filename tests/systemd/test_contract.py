"""The deployer contract, on a real systemd over a real ssh."""

from __future__ import annotations

import pytest

from spectune.domain.ports import Deployer
from tests.contracts.deployer import DeployerContract, LaunchMaker
from tests.systemd.box import Bench


@pytest.mark.systemd
class TestSystemdDeployer(DeployerContract):
    @pytest.fixture
    def deployer(self, bench: Bench) -> Deployer:
        return bench.deployer()

    @pytest.fixture
    def make(self, bench: Bench) -> LaunchMaker:
        return bench.launch
