from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Evidence, Service
from spectune.engines.llamacpp import LlamaCpp
from tests.contracts.engine import EngineContract
from tests.engines.llamacpp.recorded import STARTED, started


class TestLlamaCpp(EngineContract):
    @pytest.fixture
    def engine(self) -> LlamaCpp:
        return LlamaCpp()

    @pytest.fixture
    def service(self) -> Service:
        return Service(
            "llama.cpp", "/opt/llama-server", "/models/m.gguf", {"ctx-size": 4096, "np": 2}, {}, "127.0.0.1", 8081, "m"
        )

    @pytest.fixture
    def speculating(self, service: Service) -> Service:
        return replace(service, args={**service.args, "spec-type": "ngram-simple", "spec-ngram-simple-size-m": 16})

    @pytest.fixture
    def candidates(self) -> tuple[Candidate, ...]:
        return (
            Candidate(),
            Candidate(knobs={"threads": 3}),
            Candidate(Speculation(Method.DRAFT, 3, draft_model="/models/d.gguf")),
            Candidate(Speculation(Method.DRAFT, 3, draft_model="/models/d.gguf"), {"threads": 3}),
            Candidate(Speculation(Method.NGRAM, 8)),
            Candidate(Speculation(Method.NGRAM_POOL, 8)),
        )

    @pytest.fixture
    def log_line(self) -> str:
        return "0.00.000.001 I llama_kv_cache: size = "

    @pytest.fixture
    def recorded(self) -> Sequence[Evidence]:
        return [started(name) for name in STARTED]
