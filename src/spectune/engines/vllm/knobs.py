"""Knobs of vLLM's server: every flag that it has and every key of --speculative-config, with bounds and a word of
explanation where spectune knows them."""

from __future__ import annotations

from collections.abc import Mapping

from spectune.domain.knobs import Knob
from spectune.engines.common import flags
from spectune.engines.common.flags import Bounds
from spectune.engines.vllm.flags import Flag, FlagTable
from spectune.engines.vllm.speckeys import KEYS, SPECULATIVE, Key, by_name

SHORTHANDS: Mapping[str, str] = {
    "spec-method": "method",
    "spec-model": "model",
    "spec-tokens": "num_speculative_tokens",
}
"""Flags that set one key of --speculative-config each."""

_KNOWN: Mapping[str, Bounds] = {
    "gpu-memory-utilization": (0.01, 1, "share of GPU memory for weights, activations and KV cache"),
    "kv-cache-memory-bytes": (1, None, "bytes of the KV cache, instead of a share of memory"),
    "max-num-seqs": (1, None, "requests that run at the same time; chosen by the GPU's memory when not given"),
    "max-num-batched-tokens": (1, None, "tokens of one step, prompts and drafts included"),
    "max-num-scheduled-tokens": (1, None, "tokens of one step before drafts are added"),
    "max-num-active-seqs": (1, None, "requests in one step, where that is fewer than run"),
    "max-model-len": (1, None, "most tokens of one request; the model's own when not given"),
    "block-size": (1, None, "tokens of a KV block"),
    "enable-prefix-caching": (None, None, "reuse the KV cache of prompts that begin alike"),
    "enable-chunked-prefill": (None, None, "cut long prompts, so that others go on meanwhile"),
    "async-scheduling": (None, None, "schedule the next step while one runs; n-gram and suffix may switch it off"),
    "scheduling-policy": (None, None, "order in which waiting requests are taken"),
    "stream-interval": (1, None, "tokens between two chunks of a stream"),
    "attention-backend": (None, None, "attention kernels; chosen by GPU and model when not given"),
    "moe-backend": (None, None, "kernels of the experts"),
    "kv-cache-dtype": (None, None, "number format of the KV cache"),
    "dtype": (None, None, "number format of activations"),
    "quantization": (None, None, "number format of the weights"),
    "load-format": (None, None, "how weights are loaded; dummy gives random weights"),
    "tensor-parallel-size": (1, None, "GPUs that share every layer"),
    "pipeline-parallel-size": (1, None, "GPUs in a row, each with some layers"),
    "data-parallel-size": (1, None, "copies of the model"),
    "enable-expert-parallel": (None, None, "share the experts over the GPUs"),
    "enforce-eager": (None, None, "no compilation and no CUDA graphs"),
    "cudagraph-capture-sizes": (None, None, "step sizes, in tokens, for which graphs are captured"),
    "max-cudagraph-capture-size": (1, None, "largest step, in tokens, that runs as a graph; a request counts k+1"),
    "compilation-config": (None, None, "compilation and CUDA graphs, as JSON"),
    "optimization-level": (None, None, "how much is compiled: 0 to 3"),
    "performance-mode": (None, None, "throughput doubles limits, interactivity shortens steps"),
    SPECULATIVE: (None, None, "speculation, as JSON"),
    "spec-method": (None, None, "method of speculation; short for a key of speculative-config"),
    "spec-model": (None, None, "draft model; short for a key of speculative-config"),
    "spec-tokens": (1, None, "depth k; short for num_speculative_tokens of speculative-config"),
}


def knob_of(flag: Flag) -> Knob:
    """A flag as a knob."""
    return flags.knob_of(flag, _KNOWN)


def speculative_knob(key: Key) -> Knob:
    """A key of --speculative-config as a knob."""
    aliases = () if key.dotted else (f"{SPECULATIVE}.{key.key}",)
    return Knob(key.name, key.kind, key.default, key.low, key.high, key.choices, aliases=aliases, about=key.about)


def knobs(table: FlagTable) -> dict[str, Knob]:
    """Canonical name -> knob, of every flag that the server has and of every key of speculation in its version."""
    found = {flag.name: knob_of(flag) for flag in table.flags.values()}
    return found | {key.name: speculative_knob(key) for key in KEYS if key.since <= table.release}


def is_speculative(name: str) -> bool:
    """Whether a canonical name belongs to speculation rather than to the server."""
    return name == SPECULATIVE or name.startswith(f"{SPECULATIVE}.") or name in SHORTHANDS or by_name(name) is not None
