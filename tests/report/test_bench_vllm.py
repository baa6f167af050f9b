from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from spectune.domain.measurement import Outcome, Slo
from spectune.domain.workload import Arrival, Level
from spectune.report.bench_vllm import render_bench_vllm, vllm_result
from tests.support.bench_runs import TOKENS, cell, rate, run

# Fields of vLLM's own files; nothing else may be there.
VLLM = {
    "date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts", "request_rate",
    "burstiness", "max_concurrency", "ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps", "duration",
    "completed", "failed", "total_input_tokens", "total_output_tokens", "request_throughput", "request_goodput",
    "output_throughput", "total_token_throughput", "input_lens", "output_lens", "ttfts", "itls", "latencies",
    "start_times", "queue_times", "errors", "max_output_tokens_per_s", "max_concurrent_requests",
    "spec_decode_acceptance_rate", "spec_decode_acceptance_length", "spec_decode_num_drafts",
    "spec_decode_draft_tokens", "spec_decode_accepted_tokens", "spec_decode_per_position_acceptance_rates",
    *(f"{kind}_{what}_ms" for kind in ("mean", "median", "std", "p99") for what in ("ttft", "tpot", "e2el")),
}  # fmt: skip


@pytest.mark.parametrize("per_request", [True, False])
@pytest.mark.parametrize("with_records", [True, False])
@pytest.mark.parametrize("level", [Level(4), *(rate(2.0, arrival) for arrival in Arrival)])
def test_every_field_is_one_of_vllms(level: Level, with_records: bool, per_request: bool) -> None:
    one = cell(level=level)
    found = vllm_result(run(one), one if with_records else replace(one, records=()), per_request)
    assert found.keys() <= VLLM
    assert {name for name, value in found.items() if value is None} <= {"request_goodput", "max_concurrency"}


def test_times_are_those_of_the_requests() -> None:
    one = cell(lambda number: 40.0 + number, prompts=30)
    found = vllm_result(run(one), one)
    tpots = [1000 / (40.0 + number) for number in range(30)]
    assert found["mean_tpot_ms"] == pytest.approx(np.mean(tpots), rel=1e-6)
    assert found["median_tpot_ms"] == pytest.approx(np.median(tpots), rel=1e-6)
    assert found["std_tpot_ms"] == pytest.approx(np.std(tpots), rel=1e-6)
    assert found["p99_tpot_ms"] == pytest.approx(np.percentile(tpots, 99), rel=1e-6)
    assert found["mean_ttft_ms"] == pytest.approx(50)
    assert found["mean_e2el_ms"] == pytest.approx(50 + 100 * np.mean(tpots), rel=1e-6)


def test_ttft_counts_from_the_sending_as_vllms_does() -> None:
    one = cell(level=rate(2.0))
    late = replace(one, records=tuple(replace(r, due_ns=r.due_ns - 10**9) for r in one.records))
    found = vllm_result(run(late), late, per_request=True)
    assert found["mean_ttft_ms"] == pytest.approx(50)
    assert found["queue_times"] == pytest.approx([1.0] * 20)


def test_counts() -> None:
    one = cell(prompts=5)
    requests = {Outcome.OK: 5, Outcome.RESET: 2, Outcome.CANCELLED: 1}
    found = vllm_result(run(one), replace(one, measurement=replace(one.measurement, requests=requests)), True)
    assert (found["completed"], found["failed"], found["num_prompts"]) == (5, 2, 5)
    assert (found["total_output_tokens"], found["total_input_tokens"]) == (5 * TOKENS, 100)
    assert found["total_token_throughput"] == pytest.approx(50 + 100 / 20)
    assert found["output_lens"] == [TOKENS] * 5
    # Requests start each second and take 2.05 s.
    assert found["max_concurrent_requests"] == 3


def test_unknown_tokens_are_left_out() -> None:
    one = cell(prompts=5)
    unknown = replace(one, records=(replace(one.records[0], prompt_tokens=None, output_tokens=None), *one.records[1:]))
    found = vllm_result(run(one), unknown, True)
    assert not found.keys() & {"total_output_tokens", "total_input_tokens", "total_token_throughput", "output_lens"}


@pytest.mark.parametrize(
    ("level", "traffic"),
    [
        (Level(4), {"request_rate": "inf", "burstiness": 1.0, "max_concurrency": 4}),
        (rate(2.5), {"request_rate": 2.5, "burstiness": 1.0, "max_concurrency": None}),
        (rate(2.5, Arrival.GAMMA, 4.0), {"request_rate": 2.5, "burstiness": 0.25, "max_concurrency": None}),
        (rate(2.5, Arrival.CONSTANT), {"request_rate": 2.5, "max_concurrency": None}),
        (rate(8, Arrival.RAMP), {"ramp_up_strategy": "linear", "ramp_up_end_rps": 8, "max_concurrency": None}),
    ],
)
def test_traffic_is_told_as_vllm_does(level: Level, traffic: dict[str, object]) -> None:
    one = cell(level=level)
    assert traffic.items() <= vllm_result(run(one), one).items()


def test_goodput_and_drafts() -> None:
    one = cell(goodput=1.5)
    found = vllm_result(run(one, slo=Slo(0.5)), one)
    assert found["request_goodput"] == 1.5
    assert found["spec_decode_acceptance_rate"] == pytest.approx(100 / 3)
    assert found["spec_decode_acceptance_length"] == 2.0
    assert found["spec_decode_per_position_acceptance_rates"] == [0.7, 0.3]
    assert vllm_result(run(), cell(accepted=None)).keys().isdisjoint({"spec_decode_num_drafts"})


def test_one_cell_is_one_document_and_several_are_lines() -> None:
    one = cell()
    assert json.loads(render_bench_vllm(run(one), [one]))["model_id"] == "m"
    lines = render_bench_vllm(run(), [one, cell(level=Level(4))]).splitlines()
    assert [json.loads(line)["max_concurrency"] for line in lines] == [1, 4]
