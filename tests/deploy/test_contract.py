from __future__ import annotations

import pytest

from spectune.deploy.process import LocalProcesses
from tests.contracts.deployer import DeployerContract, LaunchMaker


class TestLocalProcesses(DeployerContract):
    @pytest.fixture
    def deployer(self, deployer: LocalProcesses) -> LocalProcesses:
        return deployer

    @pytest.fixture
    def make(self, make: LaunchMaker) -> LaunchMaker:
        return make
