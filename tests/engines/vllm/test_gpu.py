"""vLLM's GPU build, 0.26.0 on an H200 with captured graphs: what its logs tell, and what its arms did not share."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectune.domain.candidate import Method
from spectune.domain.deployment import Meaning
from spectune.engines.vllm import VLLM
from tests.engines.vllm.recorded import evidence

CASES = Path(__file__).resolve().parents[2] / "cases" / "vllm" / "0.26.0" / "started"
GIB = 1 << 30


def log(name: str) -> str:
    return (CASES / name / "server.log").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "method", "depth", "tokens", "graphs", "changed"),
    [
        ("base", Method.NONE, 0, 1_921_760, 384, set()),
        ("ngram", Method.NGRAM, 3, 1_917_488, 96, {"async-scheduling-off"}),
        ("draft", Method.DRAFT, 3, 1_796_144, 96, {"async-scheduling-off"}),
    ],
)
def test_recorded_logs(name: str, method: Method, depth: int, tokens: int, graphs: int, changed: set[str]) -> None:
    seen = VLLM().read(evidence(log(name)))
    assert (seen.method, seen.depth, seen.version, seen.model) == (method, depth, "0.26.0", "/models/smollm2")
    room = seen.capacity
    assert (room.kv_tokens, room.max_running, room.context_per_request) == (tokens, 128, 4096)
    assert room.graph_requests == graphs  # captured up to 384 tokens, of which a request takes k+1
    assert room.memory["weights"] == pytest.approx(0.25 * GIB, rel=0.1)
    assert room.memory["graphs"] == pytest.approx(0.08 * GIB)
    assert changed <= {a.name for a in seen.adjustments if a.meaning is Meaning.CHANGED}
    assert ("async-scheduling-off" in {a.name for a in seen.adjustments}) == ("async-scheduling-off" in changed)
    assert not [a for a in seen.adjustments if a.meaning is Meaning.INVALID]
