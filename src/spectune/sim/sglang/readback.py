"""What the server tells about itself: /server_info, /v1/loads, /v1/models, /model_info."""

from __future__ import annotations

import time

from spectune.sim.sglang.server import VERSION, Server


def server_info(server: Server) -> dict[str, object]:
    """All arguments in effect, capacity, and the state of the one scheduler."""
    args = dict(server.args)
    args["model_path"], args["served_model_name"] = server.model_path, server.model
    return {
        **args,
        "status": "ready",
        "max_total_num_tokens": server.fit.kv_tokens,
        "max_req_input_len": server.fit.context_length - 6,
        "internal_states": [_internal_state(server, args)],
        "version": VERSION,
        "kv_events": None,
        "simulated": server.simulated(),
    }


def _internal_state(server: Server, args: dict[str, object]) -> dict[str, object]:
    fit, scheduler = server.fit, server.scheduler
    state = {
        **args,
        "context_length": fit.context_length,
        "pp_max_micro_batch_size": fit.max_running,
        "max_speculative_num_draft_tokens": args["speculative_num_draft_tokens"],
        "last_gen_throughput": scheduler.counters.gauges.throughput,
        "memory_usage": {
            "weight": fit.weights_gb,
            "kvcache": round(fit.kv_gb, 2),
            "token_capacity": fit.kv_tokens,
            "graph": 0.35 if fit.graph_max else 0.0,
        },
        "effective_max_running_requests_per_dp": fit.max_running,
    }
    if fit.hybrid:
        state["max_mamba_cache_size"] = fit.mamba_slots
    average = scheduler.counters.average_accept_length()
    if average is not None:
        state["avg_spec_accept_length"] = average
    return state


def loads(server: Server) -> dict[str, object]:
    """The present load; figures of the metrics path stay 0 without --enable-metrics, as in the engine."""
    fit, scheduler = server.fit, server.scheduler
    gauges = scheduler.counters.gauges
    metered = bool(server.args["enable_metrics"])
    used, waiting = scheduler.used_tokens, sum(job.held for job in scheduler.waiting)
    load: dict[str, object] = {
        "dp_rank": 0,
        "num_running_reqs": len(scheduler.running),
        "num_waiting_reqs": len(scheduler.waiting),
        "num_waiting_uncached_tokens": waiting,
        "num_used_tokens": used,
        "num_total_tokens": used + waiting,
        "max_total_num_tokens": fit.kv_tokens,
        "max_running_requests": fit.max_running,
        "token_usage": used / fit.kv_tokens,
        "gen_throughput": gauges.throughput if metered else 0.0,
        "cache_hit_rate": gauges.hit_rate if metered else 0.0,
        "utilization": 0.0,
        "memory": {
            "weight_gb": fit.weights_gb,
            "kv_cache_gb": round(fit.kv_gb, 2),
            "graph_gb": 0.35 if fit.graph_max else 0.0,
            "token_capacity": fit.kv_tokens,
        },
        "queues": {"waiting": len(scheduler.waiting), "grammar": 0, "paused": 0, "retracted": 0},
    }
    if server.resolution.draft.depth:
        load["speculative"] = {
            "accept_length": scheduler.counters.average_accept_length() or 0.0,
            "accept_rate": gauges.accept_rate if metered else 0.0,
        }
    return {"timestamp": time.time(), "version": VERSION, "loads": [load]}


def models(server: Server) -> dict[str, object]:
    """The one served model, as OpenAI lists models."""
    card = {
        "id": server.model,
        "object": "model",
        "created": int(server.started),
        "owned_by": "sglang",
        "root": server.model,
        "parent": None,
        "max_model_len": server.fit.context_length,
    }
    return {"object": "list", "data": [card]}


def model_info(server: Server) -> dict[str, object]:
    """The model as the engine describes it."""
    architecture = server.environment.profile.architecture
    return {
        "model_path": server.model_path,
        "tokenizer_path": server.args["tokenizer_path"],
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": server.args["weight_version"],
        "has_image_understanding": False,
        "has_audio_understanding": False,
        "model_type": "simulated",
        "architectures": [architecture],
    }
