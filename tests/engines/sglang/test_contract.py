from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Evidence, Service
from spectune.domain.knobs import Settings
from spectune.engines.sglang import SGLang
from tests.contracts.engine import EngineContract
from tests.engines.sglang.recorded import STAMP, STARTED, started


class TestSGLang(EngineContract):
    @pytest.fixture(params=[None, "0.5.15", "0.5.23"])
    def engine(self, request: pytest.FixtureRequest) -> SGLang:
        return SGLang(version=request.param)

    @pytest.fixture
    def service(self) -> Service:
        return Service(
            "sglang",
            "/opt/bin/python",
            "/models/q",
            {"mem-fraction-static": 0.8, "tensor-parallel-size": 2},
            {},
            "127.0.0.1",
            30000,
            "q",
        )

    @pytest.fixture
    def speculating(self, service: Service) -> Service:
        own: Settings = {"speculative-algorithm": "NEXTN", "speculative-num-steps": 2, "speculative-eagle-topk": 1}
        return replace(service, args={**service.args, **own})

    @pytest.fixture
    def candidates(self) -> tuple[Candidate, ...]:
        return (
            Candidate(),
            Candidate(knobs={"max-running-requests": 32}),
            Candidate(Speculation(Method.MTP, 3)),
            Candidate(Speculation(Method.MTP, 3), {"max-running-requests": 32}),
            Candidate(Speculation(Method.EAGLE3, 3, 2, "/models/d", {"speculative-num-draft-tokens": 6})),
            Candidate(Speculation(Method.DRAFT, 3, draft_model="/models/d")),
            Candidate(Speculation(Method.NGRAM, 8)),
            Candidate(Speculation(Method.DFLASH, 8, draft_model="/models/d")),
        )

    @pytest.fixture
    def log_line(self) -> str:
        return f"{STAMP}server_args=ServerArgs(model_path="

    @pytest.fixture
    def recorded(self) -> Sequence[Evidence]:
        return [started(name) for name in STARTED]
