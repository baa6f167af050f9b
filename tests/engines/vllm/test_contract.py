from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Evidence, Service
from spectune.domain.knobs import Settings
from spectune.engines.vllm import VLLM
from tests.contracts.engine import EngineContract
from tests.engines.vllm.recorded import STARTED, stamped, started


class TestVLLM(EngineContract):
    @pytest.fixture(params=[None, "0.26.0", "0.32.0", "0.33.0"])
    def engine(self, request: pytest.FixtureRequest) -> VLLM:
        return VLLM(version=request.param)

    @pytest.fixture
    def service(self) -> Service:
        return Service(
            "vllm",
            "/opt/bin/python",
            "/models/q",
            {"gpu-memory-utilization": 0.8, "tensor-parallel-size": 2},
            {},
            "127.0.0.1",
            8000,
            "q",
        )

    @pytest.fixture(params=["whole", "in parts", "short"])
    def speculating(self, service: Service, request: pytest.FixtureRequest) -> Service:
        ways: dict[str, Settings] = {
            "whole": {"speculative-config": '{"method": "ngram", "num_speculative_tokens": 4}'},
            "in parts": {"speculative-config.method": "mtp", "speculative-config.num_speculative_tokens": 2},
            "short": {"spec-method": "eagle3", "spec-model": "/models/d", "spec-tokens": 3},
        }
        return replace(service, args={**service.args, **ways[request.param]})

    @pytest.fixture
    def candidates(self) -> tuple[Candidate, ...]:
        return (
            Candidate(),
            Candidate(knobs={"max-num-seqs": 32}),
            Candidate(Speculation(Method.MTP, 3)),
            Candidate(Speculation(Method.MTP, 3), {"max-num-seqs": 32}),
            Candidate(Speculation(Method.EAGLE, 3, draft_model="/models/d")),
            Candidate(Speculation(Method.EAGLE3, 3, draft_model="/models/d")),
            Candidate(Speculation(Method.DRAFT, 3, draft_model="/models/d")),
            Candidate(Speculation(Method.DFLASH, 8, draft_model="/models/d")),
            Candidate(Speculation(Method.SUFFIX, 8)),
            Candidate(Speculation(Method.NGRAM, 4, settings={"prompt_lookup_max": 4, "prompt_lookup_min": 2})),
            Candidate(
                Speculation(
                    Method.NGRAM, 4, settings={"num_speculative_tokens_per_batch_size": "[[1, 1, 4], [2, 8, 1]]"}
                )
            ),
        )

    @pytest.fixture
    def log_line(self) -> str:
        return stamped("Initializing a V1 LLM engine (v0.32.0) with config: model='/m', ").rstrip("\n")

    @pytest.fixture
    def recorded(self) -> Sequence[Evidence]:
        return [started(name) for name in STARTED]
