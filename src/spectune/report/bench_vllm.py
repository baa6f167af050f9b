"""A load test under the field names of vLLM's `bench serve` result file, so that plots made for those files work.

Written against the fields of vllm/benchmarks/serve.py (2026). What has no counterpart here is left out; docs/bench.md
lists what is there and where a field means something else than in spectune's own reports.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import TypeAlias

from spectune.domain.bench_run import BenchRun
from spectune.domain.estimate import Estimate
from spectune.domain.measurement import Measurement, Outcome, Phase, RequestRecord
from spectune.domain.metrics import MetricName
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Arrival, Level, LevelKind

Field: TypeAlias = str | int | float | list[int] | list[float] | list[str] | None

_BACKENDS = {"chat": "openai-chat", "completions": "openai"}
_P50_P99: Mapping[str, tuple[MetricName, MetricName, MetricName]] = {
    "ttft": (MetricName.TTFT, MetricName.TTFT_P50, MetricName.TTFT_P99),
    "tpot": (MetricName.TPOT, MetricName.TPOT_P50, MetricName.TPOT_P99),
}


def render_bench_vllm(run: BenchRun, cells: Sequence[MeasuredCell], per_request: bool = False) -> str:
    """One JSON object a line and cell, as `--append-result` writes them; a run of one cell is one JSON document.

    Args:
        cells: with their records, where they are known; without them, fields that need them are left out.
        per_request: also write the lists with one entry a request.
    """
    return "".join(json.dumps(vllm_result(run, cell, per_request), allow_nan=False) + "\n" for cell in cells)


def vllm_result(run: BenchRun, cell: MeasuredCell, per_request: bool = False) -> dict[str, Field]:
    """The fields of one cell. Times in milliseconds where the name says so, else in seconds."""
    m, steady = cell.measurement, _steady(cell.records)
    date = datetime.fromtimestamp(m.started_unix, UTC).strftime("%Y%m%d-%H%M%S")
    backend = _BACKENDS.get(run.api, run.api)
    fields: dict[str, Field] = {"date": date, "endpoint_type": backend, "backend": backend, "model_id": run.model}
    fields |= _traffic(m.cell.level)
    fields |= {"duration": m.window_s, "request_throughput": _value(m, MetricName.REQUEST_RATE)}
    fields |= {"output_throughput": _value(m, MetricName.AGGREGATE_SPEED)}
    fields["request_goodput"] = _value(m, MetricName.GOODPUT)
    fields |= dict(_counts(m, cell.records, steady))
    fields |= dict(_times(m, steady))
    fields |= _speculation(m)
    if per_request and steady:
        fields |= _lists(steady)
    always = {"request_goodput", "max_concurrency"}  # null in vLLM's files too
    return {name: value for name, value in fields.items() if value is not None or name in always}


def _steady(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    kept = [r for r in records if r.phase is Phase.STEADY and r.outcome is Outcome.OK]
    return sorted(kept, key=lambda record: record.sent_ns)


def _traffic(level: Level) -> dict[str, Field]:
    if level.kind is LevelKind.CONCURRENCY:
        return {"request_rate": "inf", "burstiness": 1.0, "max_concurrency": level.users}
    open_loop: dict[str, Field] = {"max_concurrency": None}
    match level.arrival:
        case Arrival.POISSON:
            return {"request_rate": level.value, "burstiness": 1.0, **open_loop}
        case Arrival.GAMMA:  # vLLM's burstiness is the shape of the distribution: 1 / squared coefficient of variation
            return {"request_rate": level.value, "burstiness": 1 / level.burstiness, **open_loop}
        case Arrival.RAMP:
            ramp: dict[str, Field] = {"ramp_up_strategy": "linear", "ramp_up_start_rps": 0}
            return {"burstiness": 1.0, **open_loop, **ramp, "ramp_up_end_rps": level.value}
        case Arrival.CONSTANT:
            return {"request_rate": level.value, **open_loop}
        case Arrival.TRACE:
            return open_loop


def _counts(
    m: Measurement, records: Sequence[RequestRecord], steady: Sequence[RequestRecord]
) -> Iterator[tuple[str, Field]]:
    yield "failed", sum(n for how, n in m.requests.items() if how not in {Outcome.OK, Outcome.CANCELLED})
    if not steady:
        return
    yield "num_prompts", len(records)
    yield "completed", len(steady)
    inputs = [r.prompt_tokens for r in steady if r.prompt_tokens is not None]
    outputs = [r.output_tokens for r in steady if r.output_tokens is not None]
    if len(outputs) == len(steady):
        yield "total_output_tokens", sum(outputs)
    if len(inputs) == len(steady):
        yield "total_input_tokens", sum(inputs)
        output_speed = _value(m, MetricName.AGGREGATE_SPEED)
        if output_speed is not None and m.window_s > 0:
            yield "total_token_throughput", output_speed + sum(inputs) / m.window_s
    # At the same moment an end comes before a beginning.
    moments = [(r.end_ns, -1) for r in records if r.sent_ns] + [(r.sent_ns, 1) for r in records if r.sent_ns]
    yield "max_concurrent_requests", max(accumulate(step for _, step in sorted(moments)))


def _times(m: Measurement, steady: Sequence[RequestRecord]) -> Iterator[tuple[str, Field]]:
    """From the requests where they are known, counted as vLLM does: from when a request was sent."""
    if not steady:
        for name, (mean, median, p99) in _P50_P99.items():
            yield f"mean_{name}_ms", _milliseconds(m.metrics.get(mean))
            yield f"median_{name}_ms", _milliseconds(m.metrics.get(median))
            yield f"p99_{name}_ms", _milliseconds(m.metrics.get(p99))
        return
    found = {
        "ttft": [(r.first_ns - r.sent_ns) / 1e6 for r in steady if r.first_ns is not None],
        "tpot": [1e3 / r.speed_tok_s for r in steady if r.speed_tok_s],
        "e2el": [(r.last_ns - r.sent_ns) / 1e6 for r in steady if r.last_ns is not None],
    }
    for name, values in found.items():
        if values:
            yield f"mean_{name}_ms", statistics.fmean(values)
            yield f"median_{name}_ms", statistics.median(values)
            yield f"std_{name}_ms", statistics.pstdev(values)
            yield f"p99_{name}_ms", _p99(values)


def _p99(values: Sequence[float]) -> float:
    """Between the two nearest values by their distance, as numpy.percentile."""
    return statistics.quantiles(values, n=100, method="inclusive")[-1] if len(values) > 1 else values[0]


def _speculation(m: Measurement) -> dict[str, Field]:
    drafts = m.acceptance
    if drafts is None or drafts.length is None or drafts.rate is None:
        return {}
    fields: dict[str, Field] = {
        "spec_decode_acceptance_rate": 100 * drafts.rate,
        "spec_decode_acceptance_length": drafts.length,
        "spec_decode_num_drafts": drafts.drafts,
        "spec_decode_draft_tokens": drafts.drafted,
        "spec_decode_accepted_tokens": drafts.accepted,
    }
    if drafts.per_position:
        fields["spec_decode_per_position_acceptance_rates"] = list(drafts.per_position)
    return fields


def _lists(steady: Sequence[RequestRecord]) -> dict[str, Field]:
    fields: dict[str, Field] = {
        "ttfts": [(r.first_ns - r.sent_ns) / 1e9 for r in steady if r.first_ns is not None],
        "latencies": [(r.last_ns - r.sent_ns) / 1e9 for r in steady if r.last_ns is not None],
        "start_times": [r.sent_ns / 1e9 for r in steady],
        "queue_times": [r.lateness_s or 0.0 for r in steady],
        "errors": ["" for _ in steady],
    }
    if all(r.prompt_tokens is not None for r in steady):
        fields["input_lens"] = [r.prompt_tokens or 0 for r in steady]
    if all(r.output_tokens is not None for r in steady):
        fields["output_lens"] = [r.output_tokens or 0 for r in steady]
    return fields


def _value(m: Measurement, name: MetricName) -> float | None:
    found = m.metrics.get(name)
    return None if found is None else found.value


def _milliseconds(estimate: Estimate | None) -> float | None:
    return None if estimate is None else 1000 * estimate.value
