"""What SGLang says it has changed by itself: one table of its sentences and what each does to a comparison."""

from __future__ import annotations

import re

from spectune.domain.deployment import Meaning
from spectune.engines.common.adjustments import Sentence, sentence

_SAME, _CHANGED, _INVALID = Meaning.SAME, Meaning.CHANGED, Meaning.INVALID

SENTENCES: tuple[Sentence, ...] = (
    sentence(
        "max-running-requests-reset",
        r"Max running requests is reset to (\d{1,9}) for speculative decoding",
        _CHANGED,
        "with speculation SGLang runs at most {1} requests at a time when no limit is set; without speculation it runs "
        "hundreds, so the two are not alike above {1} users",
        "Set max-running-requests in service.args, so that every candidate has the same limit.",
    ),
    sentence(
        "max-running-requests-reduced",
        r"max_running_requests was reduced from the requested (\d{1,9}) to (\d{1,9}) \(per",
        _CHANGED,
        "there is memory for {2} requests at a time, not for the {1} asked: more users wait in a queue",
        "Lower the depth, raise mem-fraction-static, or set max-running-requests to {2} for every candidate.",
    ),
    sentence(
        "max-running-requests-states",
        r"max_running_requests is capped to (\d{1,9}) by the mamba state cache \(max_mamba_cache_size=(\d{1,9})",
        _CHANGED,
        "the {2} recurrent states that fit into memory are enough for {1} requests at a time",
        "Raise mamba-full-memory-ratio or max-mamba-cache-size, set mamba-ssm-dtype to bfloat16, or lower the depth.",
    ),
    sentence(
        "draft-tokens-adjusted",
        r"speculative_num_draft_tokens is adjusted to speculative_num_steps \+ 1",
        _SAME,
        "with topk 1 draft tokens are always steps + 1",
    ),
    sentence(
        "draft-tokens-default",
        r"speculative_num_draft_tokens is (?:set to (\d{1,6}) by default|not set; defaulting to (\d{1,6}))",
        _CHANGED,
        "SGLang chose the number of draft tokens itself: {1}{2}",
        "Write out speculative-num-draft-tokens.",
    ),
    sentence(
        "dflash-block-unread",
        r"Failed to infer DFLASH block_size .{1,40}; defaulting speculative_num_draft_tokens to (\d{1,6})",
        _CHANGED,
        "the draft model's own block size could not be read, so SGLang takes {1}",
        "Write out speculative-num-draft-tokens.",
    ),
    sentence(
        "dflash-shape",
        r"DFLASH only supports (speculative_\w{1,30}) == 1; overriding",
        _SAME,
        "DFLASH drafts a block in one step; {1} has no meaning for it",
    ),
    sentence(
        "draft-attention-replaced",
        r"DFLASH draft worker .{0,200}Falling back to '(\w{1,40})'",
        _CHANGED,
        "the draft runs with the attention kernels {1}, not with those asked",
        "Set speculative-draft-attention-backend to {1}, so that the choice is explicit.",
    ),
    sentence(
        "adaptive-fell-back",
        r"speculative_adaptive disabled: (.{1,200}?)\. Falling back to static",
        _INVALID,
        "the depth stays fixed, because of {1}: a schedule by batch size does not run",
        "Remove the cause, or do not ask for an adaptive depth.",
    ),
    sentence(
        "mixed-chunk-off",
        r"Mixed chunked prefill is disabled",
        _CHANGED,
        "enable-mixed-chunk was asked, and speculation switches it off: prompts and decode steps take turns",
        "Remove enable-mixed-chunk, so that every candidate runs alike.",
    ),
    sentence(
        "mixed-chunk-off-ngram",
        r"The mixed chunked prefill are disabled because of using ngram",
        _SAME,
        "said of every NGRAM server; mixed chunked prefill is off anyway unless enable-mixed-chunk asks for it",
    ),
    sentence(
        "overlap-off",
        r"Non-overlap \(synchronous\) spec v2 is used",
        _CHANGED,
        "scheduling and computing take turns, which costs speed at every step",
        "Remove disable-overlap-schedule; for hybrid models set mamba-radix-cache-strategy to extra_buffer.",
    ),
    sentence(
        "draft-window-ignored",
        r"--speculative-draft-window-size has no effect with speculative_algorithm=(\w{1,40})",
        _CHANGED,
        "with {1} the draft attends to everything, whatever window was asked",
        "Remove speculative-draft-window-size.",
    ),
    sentence(
        "token-map-ignored",
        r"Speculative token map specified, but EAGLE3 models already have this",
        _CHANGED,
        "an EAGLE3 draft has its own small vocabulary, so the token map is not read",
        "Remove speculative-token-map.",
    ),
    sentence(
        "mtp-promoted",
        r"promoting --speculative-algorithm (\w{1,40}) to FROZEN_KV_MTP",
        _SAME,
        "this draft runs under its own algorithm name, FROZEN_KV_MTP",
    ),
    sentence(
        "draft-path-needless",
        r"DeepSeek MTP does not require setting speculative_draft_model_path",
        _SAME,
        "the MTP layers are in the model itself",
    ),
    sentence(
        "depth-above-heads",
        r"MTP depth (\d{1,6}) exceeds the checkpoint's num_draft_slots=(\d{1,6})",
        _CHANGED,
        "the model has {2} trained draft positions; those up to {1} draft with a head trained for another position",
        "Expect low acceptance beyond depth {2}.",
    ),
    sentence(
        "spec-v2-variable",
        r"SGLANG_ENABLE_SPEC_V2 has been removed",
        _SAME,
        "this variable does nothing any more",
    ),
    sentence(
        "kv-sized-late",
        r"Post-capture KV sizing:",
        _CHANGED,
        "the KV cache was sized after graph capture, and the limit on requests may be lower than asked",
        "Compare with candidates that were sized the same way only.",
    ),
    sentence(
        "page-size-changed",
        r"changing page_size from (\w{1,12}) to (\d{1,6})",
        _CHANGED,
        "the attention kernels want pages of {2} tokens, not {1}: prefix cache and capacity differ",
        "Set page-size to {2} for every candidate, or choose the attention-backend.",
    ),
    sentence(
        "graphs-off",
        r"(?i)\bcuda graph (?:and server warmup are |is )disabled (?:because|for) (.{1,160})",
        _CHANGED,
        "every decode step is launched kernel by kernel ({1}), which makes small batches slow",
        "Remove the cause before measuring.",
    ),
    sentence(
        "requests-retracted",
        r"KV cache pool is full\. Retract requests",
        _CHANGED,
        "the KV cache was full, and running requests were thrown out to be computed again: throughput was lost",
        "Measure fewer users, shorter requests, or a candidate with more KV room.",
    ),
    sentence(
        "memory-unbalanced",
        r"The memory capacity is unbalanced",
        _CHANGED,
        "another program holds memory of some of the GPUs, so there is less KV cache than the GPUs could have",
        "End the other program, and start again.",
    ),
    sentence(
        "old-spelling",
        r"'--[\w-]{1,80}' is deprecated and will be removed in a future release",
        _SAME,
        "an old spelling of a flag that still works",
    ),
)
"""In order: the first that is found counts."""


_QUESTIONS = re.compile(
    r"\bdisabl|\bfall(?:s|ing|en)? ?back|\bfallback|\boverrid|\badjust|\breset to\b|\breduced\b|\bcapped\b"
    r"|\bignor|\bnot supported\b|\bunsupported\b|\bno effect\b|\bswitching to\b|\bchanging\b|\bforc(?:ed|ing)\b"
    r"|\bincompatible\b|\bnot compatible\b|\bnot implemented\b|\bdefaulting\b|\bautomatically set\b|\bsub-?optimal\b"
    r"|\bexceeds\b|\bis set to\b",
    re.IGNORECASE,
)
"""SGLang's log does not tell warnings from information, so the words do."""

_HARMLESS = re.compile(
    r"^server_args="
    r"|^(?:Prefill|Decode) batch"
    r"|Ignore import error when loading"
    r"|torchcodec is not installed|tilelang not installed"
    r"|OpenAI Responses API \(/v1/responses\) disabled"
    r"|Endpoint '[^']*' is deprecated"
    r"|TRTLLM MoE deferred finalize is disabled"
    r"|multimem all-gather disabled"
    r"|Fail to set RLIMIT_NOFILE"
    r"|skip_tokenizer_init=True"
    r"|^kill_process_tree|SIGTERM received|SIGQUIT received|Subprocess \w+ \(pid"
)
"""Sentences with such words that change neither speed nor answers of a text model."""


def questions(message: str) -> bool:
    """Whether a message that is no known adjustment may speak of one."""
    return bool(_QUESTIONS.search(message)) and not _HARMLESS.search(message)
