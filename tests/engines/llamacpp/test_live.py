"""The contract of live engines on a real llama-server."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Service
from spectune.domain.ports import Engine
from spectune.engines.llamacpp import LlamaCpp
from tests.contracts.live_engine import LiveEngineContract
from tests.support.ports import fresh_port

pytestmark = pytest.mark.engine


class TestLive(LiveEngineContract):
    @pytest.fixture
    def engine(self) -> Engine:
        return LlamaCpp()

    @pytest.fixture
    def service(self, llama_server: Path, tiny_pair: tuple[Path, Path]) -> Service:
        args = {"ctx-size": 4096, "parallel": 2, "threads": 1}
        port = fresh_port()
        return Service("llama.cpp", str(llama_server), str(tiny_pair[0]), args, {}, "127.0.0.1", port, "tiny", 60.0)

    @pytest.fixture(params=["none", "draft", "ngram"])
    def candidate(self, request: pytest.FixtureRequest, tiny_pair: tuple[Path, Path]) -> Candidate:
        return {
            "none": Candidate(),
            "draft": Candidate(Speculation(Method.DRAFT, 4, draft_model=str(tiny_pair[1]))),
            "ngram": Candidate(Speculation(Method.NGRAM, 3)),
        }[request.param]


class TestBuiltInModel(TestLive):
    """Its weights are quantised: other code multiplies them than the floats of the tiny models, and which one depends
    on the processor."""

    @pytest.fixture
    def service(self, llama_server: Path, smollm2: Path) -> Service:
        args = {"ctx-size": 4096, "parallel": 2}
        return Service("llama.cpp", str(llama_server), str(smollm2), args, {}, "127.0.0.1", fresh_port(), "own", 60.0)

    @pytest.fixture(params=["none", "ngram"])
    def candidate(self, request: pytest.FixtureRequest) -> Candidate:
        return {"none": Candidate(), "ngram": Candidate(Speculation(Method.NGRAM, 3))}[request.param]
