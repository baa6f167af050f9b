"""Room of a deployment: KV cache, limits, graphs and memory, from what pages, metrics and log tell."""

from __future__ import annotations

from spectune.domain.deployment import Capacity
from spectune.engines.common.pages import first
from spectune.engines.vllm.effective import Told, graph_mode
from spectune.engines.vllm.log import LogFacts
from spectune.engines.vllm.metrics import Metrics
from spectune.engines.vllm.pages import ModelFacts, whole

_KV_TOKENS, _KV_BYTES = "kv_cache_size_tokens", "kv_cache_memory_bytes"


def capacity_of(told: Told, log: LogFacts, metrics: Metrics | None, model: ModelFacts, depth: int | None) -> Capacity:
    """Room of all copies of the model together; memory on all devices together."""
    copies = max(told.number("data_parallel_size") or 1, 1)
    devices = copies
    for key in ("tensor_parallel_size", "pipeline_parallel_size"):
        devices *= max(told.number(key) or 1, 1)
    tokens = _kv_tokens(told, log, metrics, copies)
    context = first(told.number("max_model_len"), whole(told.line.get("max_seq_len")), model.context, log.context)
    memory = log.bytes_by_part(devices)
    running = _running(told)
    return Capacity(
        kv_tokens=tokens,
        max_running=None if running is None else running * copies,
        context_per_request=context if context is None or tokens is None else min(context, tokens // copies),
        kv_bytes=first(memory.get("kv"), _kv_bytes(told, metrics, devices)),
        graph_requests=_graph_requests(told, log, depth, copies),
        memory=memory,
    )


def _kv_tokens(told: Told, log: LogFacts, metrics: Metrics | None, copies: int) -> int | None:
    """Each copy tells its own; copies that don't are taken to be like the others."""
    labels = [whole(cache.get(_KV_TOKENS)) for cache in metrics.caches] if metrics else []
    page = whole(told.info.find(_KV_TOKENS, "cache_config"))
    for each in ([count for count in labels if count], [page] if page else [], list(log.kv_tokens.values())):
        if each:
            return sum(each) if len(each) >= copies else sum(each) // len(each) * copies
    return None


def _kv_bytes(told: Told, metrics: Metrics | None, devices: int) -> int | None:
    labels = [whole(cache.get(_KV_BYTES)) for cache in metrics.caches] if metrics else []
    each = first(*labels, whole(told.info.find(_KV_BYTES, "cache_config")))
    return None if each is None else each * devices


def _running(told: Told) -> int | None:
    """Requests at a time of one copy; a draft that needs much of a step may allow fewer than are let in."""
    limits = [told.number("max_num_seqs"), told.number("max_num_active_seqs")]
    return min((limit for limit in limits if limit is not None), default=None)


def _graph_requests(told: Told, log: LogFacts, depth: int | None, copies: int) -> int | None:
    """Capture sizes count tokens, of which a request takes depth + 1 in a decode step. A device without graphs has none
    to miss."""
    if told.device == "cpu":
        return None
    if graph_mode(told, log) == "none":
        return 0
    listed = told.compilation.get("cudagraph_capture_sizes")
    sizes = [size for value in listed if (size := whole(value)) is not None] if isinstance(listed, list) else []
    if not sizes or depth is None:
        return None
    return max(sizes) // (depth + 1) * copies
