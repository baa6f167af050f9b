from __future__ import annotations

import pytest

from spectune.domain.deployment import Meaning
from spectune.engines.common.adjustments import adjustment
from spectune.engines.sglang import SGLang
from spectune.engines.sglang.adjustments import SENTENCES
from tests.engines.sglang.recorded import evidence, stamped

LINES: dict[str, tuple[str, str]] = {
    # name: a line that announces it, a similar one that does not
    "max-running-requests-reset": (
        (
            "Max running requests is reset to 48 for speculative decoding. You can override this by explicitly setting "
            "--max-running-requests."
        ),
        "Max running requests is 48.",
    ),
    "max-running-requests-reduced": (
        (
            "max_running_requests was reduced from the requested 32 to 9 (per dp worker) due to the available KV cache "
            "capacity."
        ),
        "max_running_requests=9",
    ),
    "max-running-requests-states": (
        (
            "max_running_requests is capped to 12 by the mamba state cache (max_mamba_cache_size=60, 5 state slots per "
            "request). To raise it: increase --mamba-full-memory-ratio or --max-mamba-cache-size."
        ),
        "Mamba Cache is allocated.",
    ),
    "draft-tokens-adjusted": (
        "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1",
        "speculative_num_draft_tokens is 4",
    ),
    "draft-tokens-default": (
        (
            "speculative_num_draft_tokens is set to 12 by default for ngram speculative decoding. You can "
            "override this by explicitly setting --speculative-num-draft-tokens."
        ),
        "speculative_num_draft_tokens is set to what was asked",
    ),
    "dflash-block-unread": (
        (
            "Failed to infer DFLASH block_size from draft model config; defaulting speculative_num_draft_tokens to 16. "
            "Error: no such file"
        ),
        "DFLASH block_size is 16",
    ),
    "dflash-shape": (
        "DFLASH only supports speculative_num_steps == 1; overriding speculative_num_steps=3 to 1.",
        "DFLASH runs with speculative_num_steps == 1",
    ),
    "draft-attention-replaced": (
        (
            "DFLASH draft worker does not support 'trtllm_mha' because the draft path requires per-layer "
            "DFlash attention. Falling back to 'fa3'."
        ),
        "DFLASH draft worker uses 'fa3'.",
    ),
    "adaptive-fell-back": (
        (
            "speculative_adaptive disabled: enable_pdmux=True is not supported (adaptive state swap does not update "
            "decode_attn_backend_group). Falling back to static speculative params."
        ),
        "AdaptiveSpeculativeParams initialized: steps=3, candidate_steps=[1, 3, 7]",
    ),
    "mixed-chunk-off": (
        "Mixed chunked prefill is disabled because of using eagle speculative decoding.",
        "Mixed chunked prefill is on",
    ),
    "mixed-chunk-off-ngram": (
        "The mixed chunked prefill are disabled because of using ngram speculative decoding.",
        "The mixed chunked prefill is on",
    ),
    "overlap-off": (
        "Non-overlap (synchronous) spec v2 is used for eagle/eagle3/standalone speculative decoding.",
        "Overlap spec v2 is used",
    ),
    "draft-window-ignored": (
        (
            "--speculative-draft-window-size has no effect with speculative_algorithm=STANDALONE (honored by "
            "Llama EAGLE-3 and DFLASH only)."
        ),
        "--speculative-draft-window-size is 128",
    ),
    "token-map-ignored": (
        "Speculative token map specified, but EAGLE3 models already have this. Ignoring the specified token map.",
        "Speculative token map loaded",
    ),
    "mtp-promoted": (
        "Detected Gemma4AssistantForCausalLM draft; promoting --speculative-algorithm NEXTN to FROZEN_KV_MTP.",
        "Detected Gemma4AssistantForCausalLM draft",
    ),
    "draft-path-needless": (
        "DeepSeek MTP does not require setting speculative_draft_model_path.",
        "DeepSeek MTP is used",
    ),
    "depth-above-heads": (
        "MTP depth 5 exceeds the checkpoint's num_draft_slots=3.",
        "MTP depth 3",
    ),
    "spec-v2-variable": (
        "SGLANG_ENABLE_SPEC_V2 has been removed: speculative decoding always runs the V2 worker.",
        "SGLANG_ENABLE_SPEC_V2 is set",
    ),
    "kv-sized-late": ("Post-capture KV sizing: 1000 tokens", "KV sizing done"),
    "page-size-changed": (
        "TensorRT-LLM MHA only supports page_size of 16, 32 or 64, changing page_size from None to 64.",
        "page_size is 64",
    ),
    "graphs-off": (
        "Cuda graph is disabled because of using torch native attention backend",
        "Disable prefill CUDA graph because cuda_graph_config resolved prefill.backend='disabled'",
    ),
    "requests-retracted": (
        (
            "KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_tokens_gained: 900, "
            "#new_token_ratio: 0.1 -> 0.4"
        ),
        "KV cache pool is half full.",
    ),
    "memory-unbalanced": (
        "The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre_model_load_memory=100",
        "The memory capacity is 139 GB",
    ),
    "old-spelling": (
        (
            "'--cuda-graph-max-bs' is deprecated and will be removed in a future release. Use "
            "'--cuda-graph-max-bs-decode' instead."
        ),
        "Endpoint '/get_model_info' is deprecated and will be removed in a future version.",
    ),
}


def test_every_sentence_has_its_line() -> None:
    assert [sentence.name for sentence in SENTENCES] == list(LINES)


@pytest.mark.parametrize("name", LINES)
def test_sentences(name: str) -> None:
    line, other = LINES[name]
    found = adjustment(line, SENTENCES)
    assert found is not None
    assert (found.name, found.text) == (name, line)
    assert found.because
    assert bool(found.advice) is (found.meaning is not Meaning.SAME)
    assert "{" not in found.because + found.advice
    assert adjustment(other, SENTENCES) is None


@pytest.mark.parametrize("name", LINES)
def test_sentences_in_a_log(name: str) -> None:
    line, _ = LINES[name]
    seen = SGLang().read(evidence(stamped(line, line)))
    assert [adjusted.name for adjusted in seen.adjustments] == [name]
    assert seen.warnings == ()


def test_numbers_are_told() -> None:
    found = adjustment(LINES["max-running-requests-reduced"][0], SENTENCES)
    assert found is not None
    assert "9 requests at a time, not for the 32 asked" in found.because
    assert "max-running-requests to 9" in found.advice


@pytest.mark.parametrize(
    ("line", "worrying"),
    [
        ("Radix cache is disabled because --enable-mis is set.", True),
        ("--deepep-mode is ignored for Flashinfer MoE A2A", True),
        ("FooBackend is not supported on this GPU, falling back to triton", True),
        ("Chunked prefill size is adjusted to 4096", True),
        ("The expert parallel size is set to 4", True),
        ("Ignore import error when loading sglang.srt.models.x: No module named 'y'", False),
        ("Fail to set RLIMIT_NOFILE: current limit exceeds maximum limit", False),
        ("Endpoint '/get_model_info' is deprecated and will be removed in a future version.", False),
        ("Memory pool end. avail mem=9.33 GB", False),
        ("The server is fired up and ready to roll!", False),
    ],
)
def test_what_is_unknown_stays_a_warning(line: str, worrying: bool) -> None:
    assert SGLang().read(evidence(stamped(line))).warnings == ((line,) if worrying else ())


def test_behind_a_progress_bar() -> None:
    log = "  0%|   | 0/23 [00:00<?, ?it/s]\rCapturing batches (bs=48):   0%|  | 0/23 [00:00<?, ?it/s]" + stamped(
        "Radix cache is disabled because --enable-mis is set."
    )
    assert SGLang().read(evidence(log)).warnings == ("Radix cache is disabled because --enable-mis is set.",)


def test_colours_are_taken_off() -> None:
    line = LINES["old-spelling"][0]
    (found,) = SGLang().read(evidence(f"\x1b[1;33m{line}\x1b[0m\n")).adjustments
    assert found.text == line
