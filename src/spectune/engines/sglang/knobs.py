"""Knobs of SGLang's server: every flag that it has, with bounds and a word of explanation where spectune knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from spectune.domain.knobs import Knob
from spectune.engines.common import flags
from spectune.engines.common.flags import Bounds
from spectune.engines.sglang.flags import Flag, FlagTable

_KNOWN: Mapping[str, Bounds] = {
    # The server.
    "mem-fraction-static": (0.01, 1, "share of GPU memory for weights and KV cache"),
    "max-running-requests": (1, None, "requests that run at the same time; 48 under speculation when not given"),
    "max-queued-requests": (1, None, "requests that may wait"),
    "max-total-tokens": (1, None, "tokens of KV cache; from free memory when not given"),
    "context-length": (1, None, "most tokens of one request; the model's own when not given"),
    "chunked-prefill-size": (-1, None, "prompt tokens computed at a time; -1 does not cut prompts"),
    "max-prefill-tokens": (1, None, "prompt tokens of one prefill batch"),
    "page-size": (1, None, "tokens of a KV page"),
    "schedule-conservativeness": (0, None, "how careful the scheduler admits requests; above 1 is more careful"),
    "schedule-policy": (None, None, "order in which waiting requests are taken"),
    "num-continuous-decode-steps": (1, None, "decode steps between two looks at the queue"),
    "stream-interval": (1, None, "tokens between two chunks of a stream"),
    "attention-backend": (None, None, "attention kernels; chosen by GPU and model when not given"),
    "decode-attention-backend": (None, None, "attention kernels of decode steps"),
    "prefill-attention-backend": (None, None, "attention kernels of prompts"),
    "sampling-backend": (None, None, "sampling kernels"),
    "moe-runner-backend": (None, None, "kernels of the experts"),
    "moe-a2a-backend": (None, None, "how tokens reach experts on other GPUs"),
    "kv-cache-dtype": (None, None, "number format of the KV cache"),
    "quantization": (None, None, "number format of the weights"),
    "tp-size": (1, None, "GPUs that share every layer"),
    "pp-size": (1, None, "GPUs in a row, each with some layers"),
    "dp-size": (1, None, "copies of the model"),
    "ep-size": (1, None, "GPUs that share the experts"),
    "cuda-graph-max-bs-decode": (1, None, "most requests of a decode step that runs as a captured graph"),
    "cuda-graph-bs-decode": (None, None, "batch sizes for which decode graphs are captured"),
    "disable-overlap-schedule": (None, None, "schedule and compute in turn instead of at once"),
    "disable-radix-cache": (None, None, "no prefix cache"),
    "enable-mixed-chunk": (None, None, "prompts and decode steps in one batch; off under speculation"),
    "flashinfer-allreduce-fusion-backend": (None, None, "fuse all-reduce with the norm that follows"),
    "enforce-disable-flashinfer-allreduce-fusion": (
        None,
        None,
        "switch all-reduce fusion off where SGLang turns it on",
    ),
    "disable-custom-all-reduce": (None, None, "all-reduce by NCCL alone"),
    "max-mamba-cache-size": (1, None, "recurrent states kept, for hybrid models"),
    "mamba-full-memory-ratio": (0.01, None, "memory of recurrent states against that of the KV cache"),
    "mamba-radix-cache-strategy": (None, None, "how states of shared prefixes are kept"),
    "mamba-track-interval": (1, None, "tokens between two kept states; not fewer than draft tokens"),
    "mamba-ssm-dtype": (None, None, "number format of recurrent states"),
    "load-format": (None, None, "how weights are loaded; dummy gives random weights"),
    "watchdog-timeout": (1, None, "seconds after which a hanging step ends the server"),
    # Speculation.
    "speculative-algorithm": (
        None,
        None,
        "EAGLE, EAGLE3, NEXTN (the model's own MTP layers), STANDALONE (a draft model), NGRAM or DFLASH",
    ),
    "speculative-draft-model-path": (None, None, "draft model, a directory"),
    "speculative-num-steps": (1, None, "depth k: tokens drafted one after another"),
    "speculative-eagle-topk": (1, None, "branches per drafted position; 1 is a chain"),
    "speculative-num-draft-tokens": (
        2,
        None,
        "tokens verified at a time, the last sure one included: k+1 for a chain, NGRAM and DFLASH",
    ),
    "speculative-dflash-block-size": (2, None, "tokens verified at a time by DFLASH; same as draft tokens"),
    "speculative-accept-threshold-single": (0, 1, "accept a drafted token above this probability; below 1 is lossy"),
    "speculative-accept-threshold-acc": (0, 1, "raise acceptance to p / this; below 1 is lossy"),
    "speculative-use-rejection-sampling": (None, None, "lossless acceptance of sampled drafts; topk 1 only"),
    "speculative-use-block-verification": (None, None, "accept blocks of drafted tokens together"),
    "speculative-token-map": (None, None, "file with the draft's small vocabulary; EAGLE3 has its own"),
    "speculative-attention-mode": (
        None,
        None,
        "attention kernels for verifying: those of prefill or of decode; matters where the two differ",
    ),
    "speculative-draft-attention-backend": (None, None, "attention kernels of the draft; the target's if not given"),
    "speculative-draft-window-size": (1, None, "most recent tokens the draft attends to"),
    "speculative-draft-sink-size": (0, None, "first tokens the draft attends to beside its window"),
    "speculative-draft-model-quantization": (None, None, "number format of the draft; the target's if not given"),
    "speculative-moe-runner-backend": (None, None, "kernels of the draft's experts"),
    "speculative-adaptive": (None, None, "change the depth while serving, after the acceptance seen"),
    "speculative-adaptive-config": (None, None, "JSON file of allowed depths by batch size"),
    "speculative-ngram-min-bfs-breadth": (1, None, "fewest branches of the n-gram tree"),
    "speculative-ngram-max-bfs-breadth": (1, None, "most branches of the n-gram tree"),
    "speculative-ngram-match-type": (None, None, "recent continuations (BFS) or frequent ones (PROB)"),
    "speculative-ngram-max-trie-depth": (1, None, "longest n-gram remembered"),
    "speculative-ngram-capacity": (1, None, "n-grams remembered"),
    "speculative-ngram-external-sam-budget": (0, None, "drafted tokens taken from the external corpus"),
    "enable-multi-layer-eagle": (None, None, "draft with several MTP layers, one a step"),
}


def knob_of(flag: Flag) -> Knob:
    """A flag as a knob."""
    return flags.knob_of(flag, _KNOWN)


def knobs(table: FlagTable) -> dict[str, Knob]:
    """Canonical name -> knob, of every flag that the server has; old spellings are aliases of the new."""
    found: dict[str, Knob] = {}
    old: dict[str, list[str]] = {}
    for spelling, flag in table.flags.items():
        target = table.canonical(spelling)
        if target is not None and target.name != flag.name:
            old.setdefault(target.name, []).append(spelling)
        else:
            found[flag.name] = knob_of(flag)
    return {name: replace(knob, aliases=(*knob.aliases, *old.get(name, ()))) for name, knob in found.items()}


def is_speculative(name: str) -> bool:
    """Whether a canonical name belongs to speculation rather than to the server."""
    return name.startswith(("speculative-", "decoupled-spec-", "uno-")) or name in {
        "enable-multi-layer-eagle",
        "spec-trace-dir",
    }
