"""/metrics in Prometheus' text form, with the engine's names and labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spectune.sim.sglang.counters import Histogram, labels
from spectune.sim.sglang.server import Server

PREFIX = "sglang:"
Sample = tuple[str, float]


def render(server: Server) -> str:
    """The page. Only what the engine serves too, apart from one gauge that says that it is simulated."""
    name = str(server.model)
    ranked = labels(engine_type="unified", model_name=name, moe_ep_rank=0, pp_rank=0, tp_rank=0)
    plain = labels(engine_type="unified", model_name=name)
    lines: list[str] = []
    for gauge, text, value in _gauges(server):
        lines += _family(gauge, text, "gauge", [(ranked, value)])
    lines += _family(
        "simulated", "This server is simulated.", "gauge", [(labels(profile=server.environment.profile.name), 1.0)]
    )
    counters = server.scheduler.counters
    ranks = {"engine_type": "unified", "model_name": name, "moe_ep_rank": 0, "pp_rank": 0, "tp_rank": 0}
    for family, text, counts in (
        ("cuda_graph_passes_total", "Total number of forward passes by CUDA graph.", counters.passes),
        (
            "realtime_tokens_total",
            "Total number of tokens processed (updated on each log interval).",
            counters.realtime,
        ),
    ):
        lines += _family(
            family, text, "counter", [(labels(mode=mode, **ranks), count) for mode, count in counts.items()]
        )
    lines += _http(server)
    totals = [
        ("prompt_tokens_total", "Number of prefill tokens processed.", counters.prompt),
        ("generation_tokens_total", "Number of generation tokens processed.", counters.generated),
        ("num_requests_total", "Number of requests processed.", counters.requests),
    ]
    if server.resolution.draft.depth:
        text = "Number of speculative decoding verification calls."
        totals.append(("spec_verify_calls_total", text, counters.verified))
    if counters.aborted:
        totals.append(("num_aborted_requests_total", "Number of requests aborted.", counters.aborted))
    if counters.retracted:
        totals.append(("num_retracted_requests_total", "Number of requests retracted.", counters.retracted))
    for total, text, count in totals:
        lines += _family(total, text, "counter", [(plain, count)])
    if counters.cached:
        device = labels(cache_source="device", engine_type="unified", model_name=name)
        lines += _family(
            "cached_tokens_total", "Number of cached prompt tokens by source.", "counter", [(device, counters.cached)]
        )
    lines += _histogram("time_to_first_token_seconds", "Time to first token.", counters.first_token, plain)
    lines += _histogram("e2e_request_latency_seconds", "End-to-end request latency.", counters.latency, plain)
    lines += _histogram("inter_token_latency_seconds", "Inter-token latency.", counters.inter_token, plain)
    lines += _histogram("queue_time_seconds", "Queueing time.", counters.queue_time, ranked)
    return "\n".join(lines) + "\n"


def _gauges(server: Server) -> Iterator[tuple[str, str, float]]:
    fit, counters = server.fit, server.scheduler.counters
    gauges = counters.gauges
    used = gauges.used_tokens
    yield "num_retracted_reqs", "The number of retracted requests.", 0
    yield "max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", fit.kv_tokens
    yield "page_size", "KV cache page size in tokens.", 1
    yield "num_pages", "Number of KV cache pages.", fit.kv_tokens
    yield "context_len", "Maximum context length.", fit.context_length
    yield "startup_available_gpu_memory_gb", "Available GPU memory in GB at startup.", fit.free_gb
    yield "num_running_reqs", "The number of running requests.", gauges.running
    yield "num_queue_reqs", "The number of requests in the waiting queue.", gauges.queued
    yield "num_grammar_queue_reqs", "The number of requests in the grammar waiting queue.", 0
    yield "gen_throughput", "The generation throughput (token/s).", gauges.throughput
    yield "cache_hit_rate", "The prefix cache hit rate.", gauges.hit_rate
    yield "decode_sum_seq_lens", "The sum of all sequence lengths in decode.", gauges.sum_lengths
    yield "token_usage", "The token usage.", used / fit.kv_tokens
    yield "full_token_usage", "The token usage for full attention layers.", used / fit.kv_tokens
    yield "num_used_tokens", "The number of used tokens.", used
    yield "kv_available_tokens", "Number of free token slots in the KV cache pool.", max(0, fit.kv_tokens - used)
    yield "kv_used_tokens", "Number of actively used token slots in the KV cache pool.", used
    if fit.hybrid:
        busy = gauges.running * fit.mamba_ratio
        yield "mamba_usage", "The token usage for Mamba layers.", busy / max(1, fit.mamba_slots)
        yield "mamba_available_tokens", "Number of free state slots in the mamba SSM pool.", fit.mamba_slots - busy
        yield "mamba_used_tokens", "Number of actively used state slots in the mamba SSM pool.", busy
    draft = server.scheduler.depths.draft
    if server.resolution.draft.depth:
        length = "Mean acceptance length of speculative decoding (accepted drafts + bonus token per forward)."
        yield "spec_accept_length", length, gauges.accept_length
        yield "spec_accept_rate", "Speculative acceptance rate.", gauges.accept_rate
        yield "spec_num_steps", "Currently active speculative_num_steps.", _active(server, draft.depth)
        yield "spec_num_draft_tokens", "Currently active speculative_num_draft_tokens.", draft.verified
    yield "utilization", "The utilization.", 0
    yield "new_token_ratio", "The new token ratio.", 0.7
    yield "is_cuda_graph", "Whether the batch is using CUDA graph.", float(gauges.graph)


def _active(server: Server, depth: int) -> float:
    steps = server.args["speculative_num_steps"]
    return float(steps) if server.resolution.adaptive is None and isinstance(steps, int) else float(depth)


def _http(server: Server) -> list[str]:
    counters = server.scheduler.counters
    active = [(labels(endpoint=path, method=method), n) for (path, method), n in counters.http_active.items()]
    asked = [(labels(endpoint=path, method=method), n) for (path, method), n in counters.http_requests.items()]
    answered = [
        (labels(endpoint=path, method=method, status_code=status), n)
        for (path, method, status), n in counters.http_responses.items()
    ]
    return [
        *_family("http_requests_active", "Number of currently active HTTP requests", "gauge", active),
        *_family("http_requests_total", "Total number of HTTP requests by endpoint and method", "counter", asked),
        *_family(
            "http_responses_total", "Total number of HTTP responses by endpoint and status code", "counter", answered
        ),
    ]


def _family(name: str, text: str, kind: str, samples: Iterable[Sample]) -> list[str]:
    rows = [f"{PREFIX}{name}{label} {float(value)!r}" for label, value in samples]
    return [f"# HELP {PREFIX}{name} {text}", f"# TYPE {PREFIX}{name} {kind}", *rows] if rows else []


def _histogram(name: str, text: str, histogram: Histogram, label: str) -> list[str]:
    if not histogram.count:
        return []
    inner, rows = label[1:-1], []
    bounds = [*(repr(float(bound)) for bound in histogram.bounds), "+Inf"]
    for bound, count in zip(bounds, histogram.cumulative(), strict=True):
        rows.append(f'{PREFIX}{name}_bucket{{{inner},le="{bound}"}} {float(count)!r}')
    rows += [
        f"{PREFIX}{name}_sum{label} {histogram.total!r}",
        f"{PREFIX}{name}_count{label} {float(histogram.count)!r}",
    ]
    return [f"# HELP {PREFIX}{name} {text}", f"# TYPE {PREFIX}{name} histogram", *rows]
