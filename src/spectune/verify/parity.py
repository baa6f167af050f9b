"""Checks on what may differ between two arms although nobody asked: scheduling, graphs, caches, kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spectune.domain.asked import Asked
from spectune.domain.candidate import Method
from spectune.domain.knobs import KnobValue
from spectune.verify.arguments import mentions, same
from spectune.verify.check import Result, ok, unknown, violated, worst
from spectune.verify.observed import Observed

SAME_IN_BOTH_ARMS: Mapping[str, tuple[str, ...]] = {
    "sglang": (
        "attention-backend",
        "chunked-prefill-size",
        "cuda-graph-backend-decode",
        "cuda-graph-backend-prefill",
        "decode-attention-backend",
        "disable-cuda-graph",
        "disable-overlap-schedule",
        "disable-radix-cache",
        "dtype",
        "enable-mixed-chunk",
        "enable-torch-compile",
        "kv-cache-dtype",
        "page-size",
        "prefill-attention-backend",
        "quantization",
        "sampling-backend",
        "schedule-policy",
        "tp-size",
    ),
    "vllm": (
        "async-scheduling",
        "attention-backend",
        "block-size",
        "compilation-config.cudagraph_mode",
        "dtype",
        "enable-chunked-prefill",
        "enable-prefix-caching",
        "enforce-eager",
        "kv-cache-dtype",
        "max-num-batched-tokens",
        "model-runner",
        "quantization",
        "scheduling-policy",
        "tensor-parallel-size",
    ),
    "llama.cpp": (
        "batch-size",
        "cache-ram",
        "cache-type-k",
        "cache-type-v",
        "ctx-size",
        "flash-attn",
        "kv-unified",
        "n-gpu-layers",
        "parallel",
        "threads",
        "threads-batch",
        "ubatch-size",
    ),
}
"""Engine -> settings that change the speed by themselves, by canonical name."""


@dataclass(frozen=True, slots=True)
class Consequence:
    """A setting that a method changes by design, so that production would run with it too.

    Attributes:
        methods: that have it; empty stands for all that speculate.
        because: for people.
    """

    engine: str
    name: str
    methods: frozenset[Method]
    because: str


CONSEQUENCES: tuple[Consequence, ...] = (
    Consequence(
        "vllm",
        "async-scheduling",
        frozenset({Method.NGRAM, Method.SUFFIX}),
        "the V1 model runner can't schedule ahead while it drafts in this way",
    ),
    Consequence(
        "vllm", "model-runner", frozenset(), "vLLM chooses the runner by the method; its older one is slower by itself"
    ),
    Consequence(
        "vllm", "compilation-config.cudagraph_mode", frozenset(), "some drafters can't be captured in full CUDA graphs"
    ),
    Consequence(
        "sglang", "disable-overlap-schedule", frozenset({Method.NGRAM}), "n-gram drafts need the last step's tokens"
    ),
    Consequence("sglang", "enable-mixed-chunk", frozenset(), "speculation can't share a step with a prefill"),
)

ANNOUNCED_AS: Mapping[str, tuple[str, ...]] = {
    "disable-overlap-schedule": ("overlap-off",),
    "enable-mixed-chunk": ("mixed-chunk-off", "mixed-chunk-off-ngram"),
    "page-size": ("page-size-changed",),
    "disable-cuda-graph": ("graphs-off",),
    "cuda-graph-backend-decode": ("graphs-off",),
    "cuda-graph-backend-prefill": ("graphs-off",),
}
"""Setting -> names of the engine's own adjustments that speak of it."""

GRAPH_ENGINES = frozenset({"sglang", "vllm"})
"""Engines that capture decode steps as CUDA graphs up to a largest batch."""


def differs(asked: Asked) -> bool:
    """Whether there is another arm to be compared with."""
    return not asked.is_baseline


def scheduler_parity(asked: Asked, observed: Observed) -> Result:
    """Effective settings of the candidate against the baseline's, where the candidate did not ask for a difference."""
    wanted = "the baseline's scheduling, graphs and caches, but for what the candidate changes"
    if asked.baseline_settings is None:
        return unknown(wanted, "the baseline's settings are not known")
    names = set(SAME_IN_BOTH_ARMS.get(asked.service.engine, ())) - set(asked.candidate.changes_from(asked.baseline))
    before, now = asked.baseline_settings, observed.seen.settings
    told = sorted(name for name in names if name in before or name in now)
    if not told:
        return unknown(wanted, "the server tells none of them")
    found = worst(_pair(asked, observed, name, before.get(name), now.get(name)) for name in told)
    return Result(found.status, wanted, found.seen or f"all {len(told)} that are told are the baseline's", found.advice)


def _pair(asked: Asked, observed: Observed, name: str, before: KnobValue | None, now: KnobValue | None) -> Result:
    if before is None or now is None:
        # A value that only one arm tells was left at its default by the other.
        who = "the baseline" if before is not None else "this server"
        return unknown("", f"{name} is told by {who} alone")
    if same(before, now):
        return ok("", "")
    seen = f"{name} is {now}, in the baseline {before}"
    if because := _because(asked, observed, name):
        return ok("", f"{seen}: {because}")
    return violated("", seen)


def _because(asked: Asked, observed: Observed, name: str) -> str:
    """Why a difference is known; "" where nothing says so."""
    method = asked.candidate.speculation.method
    for rule in CONSEQUENCES:
        named = method in rule.methods if rule.methods else asked.speculates
        if (rule.engine, rule.name) == (asked.service.engine, name) and named:
            return rule.because
    for change in observed.seen.adjustments:
        if change.name in ANNOUNCED_AS.get(name, ()) or mentions(change.text, name):
            return change.because
    return ""


def captures_graphs(asked: Asked) -> bool:
    return asked.service.engine in GRAPH_ENGINES and asked.most_users > 0


def graph_cover(asked: Asked, observed: Observed) -> Result:
    """Requests that a captured graph covers, against the largest level. Larger steps are launched kernel by kernel."""
    users, covered = asked.most_users, observed.seen.capacity.graph_requests
    wanted = f"decode steps of {users} requests from a captured graph"
    before = asked.baseline_capacity.graph_requests if asked.baseline_capacity else None
    if covered is None:
        if asked.baseline_capacity is not None and before is None:
            return ok(wanted, "neither this server nor the baseline speaks of graphs: alike")
        if asked.is_baseline:
            return ok(wanted, "the service does not speak of graphs")
        return unknown(wanted, "the server does not tell what its graphs cover")
    most = observed.seen.capacity.max_running
    need = users if most is None else min(users, most)
    if covered >= need:
        return ok(wanted, f"graphs cover {covered} requests")
    seen = f"graphs cover {covered} requests; larger steps run without one"
    if asked.is_baseline:
        return ok(wanted, f"{seen}, as the service does today")
    if before is not None and before < need and before <= covered:
        return ok(wanted, f"{seen}, as in the service today with its {before}")
    return violated(wanted, seen)
