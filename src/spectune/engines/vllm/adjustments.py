"""What vLLM says it has changed by itself: one table of its sentences and what each does to a comparison.

Sentences of versions 0.26 to 0.33; two wordings of one change share a name where they mean the same.
"""

from __future__ import annotations

import re

from spectune.domain.deployment import Meaning
from spectune.engines.common.adjustments import Sentence, sentence

_SAME, _CHANGED, _INVALID = Meaning.SAME, Meaning.CHANGED, Meaning.INVALID
_PARITY = "the other arm may schedule asynchronously, so that the two differ in more than speculation"
_SYNC = "Set async-scheduling to false in service.args to compare speculation alone."
_STATIC = "Take a static depth, or a method that can change it."

SENTENCES: tuple[Sentence, ...] = (
    sentence(
        "async-scheduling-off",
        r"Async scheduling not supported with (.{1,60}?)-based speculative decoding and will be disabled",
        _CHANGED,
        f"vLLM does not schedule asynchronously with {{1}} speculation; {_PARITY}",
        _SYNC,
    ),
    sentence(
        "async-scheduling-off",
        r"Async scheduling is disabled because the V1 model runner does not support it with (.{1,80}?)\.",
        _CHANGED,
        f"the V1 model runner does not schedule asynchronously with {{1}}; {_PARITY}",
        _SYNC,
    ),
    sentence(
        "async-scheduling-off",
        r"Async scheduling is not compatible with (disable_padded_drafter_batch)=True and will be disabled",
        _CHANGED,
        f"vLLM does not schedule asynchronously with {{1}}; {_PARITY}",
        "Remove disable_padded_drafter_batch, or set async-scheduling to false in service.args.",
    ),
    sentence(
        "async-scheduling-off",
        r"Async scheduling will be disabled because it is not supported with the `(\w{1,40})` distributed executor",
        _CHANGED,
        "the executor {1} does not schedule asynchronously",
        "Set async-scheduling to false, so that the choice is explicit.",
    ),
    sentence(
        "model-runner-v1",
        r"Model Runner V2 requires Triton; using the V1 model runner",
        _SAME,
        "without Triton vLLM has the V1 model runner alone, for every candidate",
    ),
    sentence(
        "model-runner-changed",
        r"Model Runner V2 does not yet support (.{1,200}); using the V1 model runner",
        _CHANGED,
        "with {1} vLLM takes its older model runner, V1; the other arm may run on V2, so that the two differ in more "
        "than speculation",
        "Set VLLM_USE_V2_MODEL_RUNNER: '0' in service.env to compare both on V1.",
    ),
    sentence(
        "schedule-graphs-piecewise",
        r"Dynamic speculative decoding changes .{1,80} Overriding cudagraph_mode from (\w{1,40}) to PIECEWISE",
        _CHANGED,
        "with a schedule of depths the V1 runner captures pieces of a step instead of whole steps ({1}), which can "
        "cost more than the schedule gains",
        "Compare with static depths, or set VLLM_USE_V2_MODEL_RUNNER: '1' in service.env for all candidates.",
    ),
    sentence(
        "schedule-dropped",
        r"Disabling num_speculative_tokens_per_batch_size and falling back to static num_speculative_tokens=(\d{1,6})",
        _INVALID,
        "vLLM dropped the schedule of depths and runs with a static depth of {1}",
        _STATIC,
    ),
    sentence(
        "scheduled-tokens-set",
        r"max_num_scheduled_tokens is set to (\d{1,9}) based on the speculative decoding settings",
        _CHANGED,
        "with speculation a step takes at most {1} tokens of prompts, and prompts are cut to that; without, it may "
        "take more",
        "Set max-num-batched-tokens and max-num-scheduled-tokens in service.args, so that both arms cut alike.",
    ),
    sentence(
        "active-requests-reduced",
        r"The (\w{1,40}) draft pass needs .{1,120} Overriding max_num_active_seqs from (\w{1,9}) to (\d{1,9})",
        _CHANGED,
        "a {1} draft needs so many tokens of a step that only {3} requests run at a time",
        "Raise max-num-batched-tokens, or lower the depth.",
    ),
    sentence(
        "context-reduced",
        r"can't skip speculation for longer sequences; reducing max_model_len to (\d{1,12})",
        _CHANGED,
        "the draft model's context is shorter, so that no request may be longer than {1} tokens any more",
        "Take a draft model with the target's context, or set max-model-len to {1} for every candidate.",
    ),
    sentence(
        "draft-context-set",
        r"Overriding draft model max model len from (\d{1,12}) to (\d{1,12})",
        _SAME,
        "the draft model takes requests as long as the target's, {2} tokens",
    ),
    sentence(
        "draft-context-stretched",
        r"Overriding draft model max_position_embeddings from (\d{1,12}) to the target model's max_model_len",
        _CHANGED,
        "the draft model was trained for {1} tokens and drafts beyond them, where few drafts will be accepted",
        "Take a draft model with the target's context; look at acceptance of long requests on its own.",
    ),
    sentence(
        "mtp-layer-reused",
        r"Enabling num_speculative_tokens > 1 will run multiple times of forward on same MTP layer",
        _CHANGED,
        "the model has one MTP layer, which drafts position after position; later positions are accepted less",
        "Compare with depth 1.",
    ),
    sentence(
        "depth-default",
        r"Defaulted num_speculative_tokens to (\d{1,6}) for suffix decoding",
        _CHANGED,
        "vLLM chose the depth itself: {1}",
        "Write out num_speculative_tokens.",
    ),
    sentence(
        "method-renamed",
        r"method `(\w{1,40})` is deprecated and replaced with mtp",
        _SAME,
        "{1} is an old name of mtp",
    ),
    sentence(
        "lora-budget",
        r"Consider increasing max_num_batched_tokens or decreasing num_speculative_tokens",
        _CHANGED,
        "with adapters a step is too small for all requests with their drafts",
        "Raise max-num-batched-tokens to max-num-seqs times the depth + 1, or lower the depth.",
    ),
    sentence(
        "graph-limit-reduced",
        r"Truncating max_cudagraph_capture_size to (\d{1,9})",
        _CHANGED,
        "graphs cover steps of up to {1} tokens; a request takes depth + 1 of them, and larger steps run without",
        "Raise max-cudagraph-capture-size to the users times the depth + 1.",
    ),
    sentence(
        "graph-limit-reduced",
        r"max_cudagraph_capture_size.{0,80}original_size=\d{1,9}, ?truncated_size=(\d{1,9})",
        _CHANGED,
        "graphs cover steps of up to {1} tokens; a request takes depth + 1 of them, and larger steps run without",
        "Raise max-cudagraph-capture-size to the users times the depth + 1.",
    ),
    sentence(
        "graphs-changed",
        r"CUDAGraphMode\.(\w{1,40}) is not supported with (.{1,160}?); setting cudagraph_mode=(\w{1,40})",
        _CHANGED,
        "graphs run in mode {3} instead of {1}: {2} can't do more",
        "Set compilation-config.cudagraph_mode to {3} in service.args for both arms, or take another "
        "attention-backend.",
    ),
    sentence(
        "graphs-changed",
        r"(?:[Oo]verriding|Setting) cudagraph_mode (?:(?:from )?(\w{1,40}) )?to (\w{1,40})",
        _CHANGED,
        "vLLM runs graphs in mode {2}, not in the one asked or expected",
        "Set compilation-config.cudagraph_mode to {2} in service.args, so that both arms run alike.",
    ),
    sentence(
        "graphs-changed",
        r"Cudagraph mode (\S{1,40}) requires piecewise capture.{1,200} Overriding to (?:CUDAGraphMode\.)?(\w{1,40})",
        _CHANGED,
        "vLLM runs graphs in mode {2}: this model can't be captured in pieces",
        "Set compilation-config.cudagraph_mode to {2} in service.args, so that both arms run alike.",
    ),
    sentence(
        "eager",
        r"Enforce eager set, disabling torch\.compile|Cudagraph is disabled under eager mode",
        _SAME,
        "enforce-eager asks for neither compilation nor graphs",
    ),
    sentence(
        "eager-compilation",
        r"Inductor compilation was disabled by user settings",
        _SAME,
        "the settings ask for no compilation",
    ),
    sentence(
        "prefix-cache-off",
        r"Disabling prefix caching: (.{1,160})",
        _CHANGED,
        "prompts that begin alike are computed again: {1}",
        "Set enable-prefix-caching to false in service.args, so that both arms have none.",
    ),
    sentence(
        "sampling-parameters",
        r"min_p and logit_bias parameters won't work with speculative decoding",
        _CHANGED,
        "with speculation a request with min_p or logit_bias is refused (HTTP 400)",
        "Make sure that no client sends them before speculation is promoted.",
    ),
    sentence(
        "cpu-openmp",
        r"Speculative decoding on CPU without Intel OpenMP in LD_PRELOAD",
        _CHANGED,
        "on a CPU speculation is slower than it could be while Intel's OpenMP is not preloaded",
        "Set LD_PRELOAD to libiomp5.so in service.env for every candidate.",
    ),
    sentence(
        "kv-dtype-reset",
        r"Reset SSM cache type to (\w{1,40}) for accelerated GDN mamba backend",
        _SAME,
        "the number format of recurrent states on this device is {1}",
    ),
    sentence(
        "development-endpoints",
        r"SECURITY WARNING: Development endpoints are enabled",
        _SAME,
        "trial servers show their settings; a promoted service runs without these endpoints",
    ),
)
"""In order: the first that is found counts."""


_HARMLESS = re.compile(
    r"^\[shutdown\]"
    r"|^Found ulimit of"
    r"|Triton is not installed\. triton-cpu is expected"
    r"|lib(?:tcmalloc|iomp) is not found in LD_PRELOAD"
    r"|no CUDA runtime is found"
    r"|you should provide the model as a positional argument"
    r"|Default vLLM sampling parameters have been overridden"
)
"""Warnings about the machine or the shutdown, the same for every candidate."""


def worth_telling(message: str) -> bool:
    """Whether a warning that is no known adjustment may matter."""
    return not _HARMLESS.search(message)
