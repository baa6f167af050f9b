"""The contract of live engines on a real vLLM. The campaign of the other tests runs the remaining methods."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectune import assemble
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Service
from spectune.domain.ports import Engine
from tests.contracts.live_engine import LiveEngineContract
from tests.engines.vllm.real.conftest import Installed
from tests.support.ports import fresh_port

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]


class TestLive(LiveEngineContract):
    @pytest.fixture
    def engine(self, prepared: assemble.Prepared) -> Engine:
        return prepared.engine

    @pytest.fixture
    def service(self, prepared: assemble.Prepared) -> Service:
        return replace(prepared.service, port=fresh_port())

    @pytest.fixture
    def candidate(self, vllm_cpu: Installed) -> Candidate:
        return Candidate(Speculation(Method.DRAFT, 3, draft_model=str(vllm_cpu.draft)))
