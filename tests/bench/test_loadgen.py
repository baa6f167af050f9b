"""bench/loadgen: what the mock's log says, what other clients report, and which cells are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.loadgen import tables
from bench.loadgen.clients import Sglang, Vllm
from bench.loadgen.mock import Served, Spread, Truth
from bench.loadgen.vocabulary import words, write_tokenizer

MS = 1_000_000


def served(asked_ms: int, fault: str = "-", tokens: int = 11) -> Served:
    """First token after 50 ms, then ten more, one every 5 ms."""
    return Served(fault, asked_ms * MS, (asked_ms + 50) * MS, (asked_ms + 100) * MS, tokens, tokens)


def test_the_truth_is_what_the_log_says() -> None:
    truth = Truth((served(0), served(100), served(200, "reset", 3), served(300, "gone", 5)))
    assert (truth.tokens, truth.faulty, truth.sent_tokens) == (22, 1, 30)
    assert truth.ttft == Spread(50.0, 50.0, 50.0)
    assert truth.tpot.mean == pytest.approx(5.0)
    assert truth.last(2).tokens == 0
    assert truth.between(50 * MS, 150 * MS).tokens == 11
    assert truth.speed_between(50 * MS, 200 * MS) == pytest.approx(22 / 0.150)


def test_nothing_served_has_no_times() -> None:
    assert Truth(()).ttft == Spread()


def test_results_of_vllm_and_sglang_are_read(tmp_path: Path) -> None:
    common = {"completed": 9, "total_output_tokens": 90, "output_throughput": 100.0, "max_output_tokens_per_s": 80.0}
    times = {f"mean_{name}_ms": 5.0 for name in ("ttft", "tpot", "itl")}
    vllm = common | times | {"failed": 1, "p99_ttft_ms": 7.0, "mean_e2el_ms": 50.0}
    (tmp_path / "result.json").write_text(json.dumps(vllm))
    read = Vllm().read(tmp_path, "")
    assert (read.completed, read.failed, read.tokens, read.peak_tok_s) == (9, 1, 90, 80.0)
    assert (read.ttft.mean, read.ttft.p99, read.latency.mean) == (5.0, 7.0, 50.0)
    (tmp_path / "result.json").write_text(json.dumps(common | times | {"mean_e2e_latency_ms": 60.0}) + "\n")
    read = Sglang().read(tmp_path, "")
    assert (read.failed, read.latency.mean) == (None, 60.0)


def fault(**fields: object) -> dict[str, object]:
    row = {"client": "x", "fault": "eof", "trouble": "", "requests": 100, "faulty": 2, "completed": 98, "failed": 2}
    return row | {"outcomes": {"ok": 98, "truncated": 2}} | fields


@pytest.mark.parametrize(
    ("row", "cell"),
    [
        (fault(), "2 failed: truncated"),
        (fault(completed=100, failed=0), "**wrong:** 2 of 2 counted as served"),
        (fault(failed=None), "2 missing, no count of failures"),
        (fault(completed=97, failed=2), "**wrong:** 97 served, 2 failed of 100 with 2 faulty"),
        (fault(trouble="hangs", completed=None, failed=None), "**wrong:** hangs, no report"),
    ],
)
def test_a_fault_is_counted_for_what_it_is_or_named_wrong(row: dict[str, object], cell: str) -> None:
    assert cell in tables.faults([row])


def test_a_table_replaces_what_is_between_its_markers() -> None:
    text = "a\n<!-- speed: begin -->\nold\n<!-- speed: end -->\nb"
    assert tables.put(text, "speed", r"new \1") == "a\n<!-- speed: begin -->\nnew \\1\n<!-- speed: end -->\nb"
    with pytest.raises(ValueError, match="no markers"):
        tables.put(text, "soak", "new")


def test_a_client_that_is_missing_is_a_row_that_says_why() -> None:
    assert "did not run: no wheel" in tables.speed([{"client": "AIPerf", "why": "no wheel"}])


def test_each_word_of_the_mock_is_a_token(tmp_path: Path) -> None:
    vocabulary = json.loads((write_tokenizer(tmp_path) / "tokenizer.json").read_text())["model"]["vocab"]
    assert len(words()) == len(set(words())) > 200
    assert set(words()) < vocabulary.keys()
