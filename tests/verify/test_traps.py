"""The registry of traps: each entry is triggered by one case and not by another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.finding import Status
from spectune.load.doubts import doubts
from spectune.verify.catalogue import CHECKS
from spectune.verify.traps import TRAPS, as_markdown, in_range, known, worrying
from tests.load.test_doubts import CASES as DOUBTED
from tests.load.test_doubts import FINE
from tests.verify.cases.traps import CONDITIONS

CHECK = {check.name: check for check in CHECKS}

LINES: dict[str, tuple[str, str]] = {
    "draft-vocabulary": (
        "E srv load_model: failed to initialize speculative decoding context: the target and draft vocabs differ",
        "I srv load_model: speculative decoding context initialized",
    ),
    "steps-and-draft-tokens": (
        "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1",
        "speculative_num_draft_tokens=4, speculative_num_steps=3",
    ),
    "adaptive-fell-back": (
        "speculative_adaptive disabled: topk is 4. Falling back to static speculative params.",
        "AdaptiveSpeculativeParams initialized: steps=3",
    ),
    "schedule-fell-back": (
        "Disabling num_speculative_tokens_per_batch_size and falling back to static num_speculative_tokens=3.",
        "num_speculative_tokens=3",
    ),
    "same-layer-many-times": (
        "Enabling num_speculative_tokens > 1 will run multiple times of forward on same MTP layer",
        "SpeculativeConfig(method='mtp', num_spec_tokens=1)",
    ),
    "spec-v2-variable": ("SGLANG_ENABLE_SPEC_V2 has been removed: speculative decoding always runs", "spec v2 is used"),
    "limit-48": (
        "Max running requests is reset to 48 for speculative decoding. You can override this by explicitly setting it.",
        "max_running_requests=48",
    ),
    "graphs-truncated": (
        "Truncating max_cudagraph_capture_size to 40",
        "max_cudagraph_capture_size=512",
    ),
    "graphs-piecewise": (
        "Overriding cudagraph_mode from FULL to PIECEWISE for reliability",
        "cudagraph_mode=PIECEWISE",
    ),
    "prefill-budget-cut": (
        "max_num_scheduled_tokens is set to 2048 based on the speculative decoding settings.",
        "max_num_scheduled_tokens=8192",
    ),
    "async-scheduling-off": (
        "Async scheduling not supported with ngram-based speculative decoding and will be disabled.",
        "Asynchronous scheduling is enabled.",
    ),
    "async-scheduling-off-v1": (
        "Async scheduling is disabled because the V1 model runner does not support it with suffix.",
        "Async scheduling is enabled.",
    ),
    "overlap-off": (
        "Non-overlap (synchronous) spec v2 is used for eagle/eagle3/standalone speculative decoding.",
        "disable_overlap_schedule=False",
    ),
    "mixed-chunk-off": (
        "Mixed chunked prefill is disabled because of using eagle speculative decoding.",
        "enable_mixed_chunk=True",
    ),
    "sampling-refused": (
        "min_p and logit_bias parameters won't work with speculative decoding.",
        "min_p is 0.05",
    ),
    "speculation-unsupported": (
        "W srv load_model: speculative decoding not supported by this context",
        "I srv load_model: speculative decoding will use checkpoints",
    ),
    "draft-size-clamped": (
        "W common_speculative: requested draft size (n_max=16, n_min=0) exceeds the trained block size 8 -- clamping",
        "I common_speculative: trained block size 8, requested draft size (n_max=8, n_min=0)",
    ),
    "depth-above-heads": (
        "MTP depth 5 exceeds the checkpoint's num_draft_slots=3",
        "MTP depth 3, num_draft_slots=3",
    ),
    "draft-tokens-default": (
        "speculative_num_draft_tokens is set to 12 by default for ngram speculative decoding.",
        "speculative_num_draft_tokens=12",
    ),
    "draft-window-ignored": (
        "--speculative-draft-window-size has no effect with speculative_algorithm=NGRAM",
        "speculative_draft_window_size=512, speculative_algorithm=EAGLE3",
    ),
    "token-map-ignored": (
        "Speculative token map specified, but EAGLE3 models already have this. Ignoring the specified token map.",
        "Speculative token map: 32000 of 128256 tokens",
    ),
    "draft-context-stretched": (
        "Overriding draft model max_position_embeddings from 2048 to the target model's max_model_len (32768).",
        "Overriding draft model max model len from 2048 to 32768",
    ),
    "states-limit-requests": (
        "max_running_requests is capped to 11 by the mamba state cache (max_mamba_cache_size=55, 5 state slots",
        "max_running_requests=48, max_mamba_cache_size=240",
    ),
    "active-requests-reduced": (
        "The dflash draft pass needs 16 query tokens per request. Overriding max_num_active_seqs from 256 to 128.",
        "max_num_active_seqs=256",
    ),
    "context-reduced": (
        "... and the V2 model runner can't skip speculation for longer sequences; reducing max_model_len to 2048.",
        "max_model_len=2048",
    ),
    "graphs-mode-changed": (
        "CUDAGraphMode.FULL is not supported with spec-decode for FLASHINFER; setting cudagraph_mode=PIECEWISE",
        "cudagraph_mode=CUDAGraphMode.FULL_AND_PIECEWISE",
    ),
    "model-runner-changed": (
        "Model Runner V2 does not yet support speculative method 'suffix'; using the V1 model runner instead.",
        "Model Runner V2 requires Triton; using the V1 model runner instead.",
    ),
    "async-scheduling-off-unpadded": (
        "Async scheduling is not compatible with disable_padded_drafter_batch=True and will be disabled.",
        "disable_padded_drafter_batch=False",
    ),
    "pool-too-short": ("ngram_mod n_match=8 is too small - poor quality is possible", "ngram_mod n_match=24"),
    "kv-full": (
        "failed to find free space in the KV cache, retrying with smaller batch size, off = 0, n_batch = 256",
        "KV buffer size = 90.00 MiB",
    ),
    "requests-retracted": ("KV cache pool is full. Retract requests. #retracted_reqs: 1", "KV cache pool is ready"),
    "no-openmp": (
        "Speculative decoding on CPU without Intel OpenMP in LD_PRELOAD will cause significant performance loss.",
        "OpenMP threads: 2",
    ),
    "no-api-key": ("W srv init: no API key is set", "an API key is set"),
    "default-port": ("W the default port will be changed to 8081", "port 8080"),
    "cached-whole": ("need to evaluate at least 1 token for each active slot (n_past = 353)", "evaluated 1 token"),
    "cached-whole-set-back": ("W slot update: n_past was set to 352", "n_past = 352"),
    "client-gone": ("W srv stop: cancel task, id_task = 4", "task 4 done"),
    "context-below-trained": ("n_ctx_seq (2048) < n_ctx_train (8192) -- the full capacity is not used", "n_ctx = 2048"),
    "synthetic-told": (
        "W synthetic speculative acceptance is enabled for benchmarking; generated output is not valid",
        "speculative acceptance: 0.5",
    ),
    "development-pages": ("SECURITY WARNING: Development endpoints are enabled!", "endpoints are enabled"),
    "own-deprecations": ("DeprecationWarning: use the other function", "Deprecated flags: none"),
}
"""Trap -> a line that shows it, and one that speaks of the same thing and does not."""


def test_every_trap_with_a_sign_has_its_two_lines() -> None:
    assert {trap.name for trap in TRAPS if trap.sign} == set(LINES)
    assert len({trap.name for trap in TRAPS}) == len(TRAPS)


@pytest.mark.parametrize("name", LINES)
def test_a_sign_is_found_and_its_like_is_not(name: str) -> None:
    trap = next(trap for trap in TRAPS if trap.name == name)
    version = {"<0.33": "0.32.0", ">=0.33": "0.33.0", "<0.5.23": "0.5.15"}.get(trap.versions)
    hit, miss = LINES[name]
    assert known(hit, trap.engine, version) is trap
    assert known(miss, trap.engine, version) is None


def test_every_trap_without_a_sign_has_its_two_cases() -> None:
    silent = {trap.name: trap.check for trap in TRAPS if not trap.sign}
    assert {name for name, check in silent.items() if check not in DOUBTED} == set(CONDITIONS)


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_is_seen_and_its_like_is_not(name: str) -> None:
    check = CHECK[next(trap.check for trap in TRAPS if trap.name == name)]
    bad, good = CONDITIONS[name]
    assert check.applies(bad.asked)
    assert check.applies(good.asked)
    assert (found := check(bad.asked, bad.observed)).status is bad.status, found.seen
    assert bad.status is not Status.OK
    assert (found := check(good.asked, good.observed)).status is Status.OK, found.seen


@pytest.mark.parametrize("name", sorted({trap.check for trap in TRAPS} & DOUBTED.keys()))
def test_a_doubt_of_the_measurement_is_raised_and_is_not(name: str) -> None:
    assert name in {doubt.name for doubt in doubts(replace(FINE, **DOUBTED[name]))}  # type: ignore[arg-type]
    assert name not in {doubt.name for doubt in doubts(FINE)}


def test_every_trap_is_caught_by_something_that_exists() -> None:
    """By a check, or by a doubt of the measurement."""
    names = CHECK.keys() | DOUBTED.keys()
    assert [trap.name for trap in TRAPS if trap.check not in names] == []
    assert all(trap.meaning and trap.source and (trap.harmless or trap.advice.endswith(".")) for trap in TRAPS)


def test_a_sign_counts_for_its_engine_and_versions_alone() -> None:
    line = LINES["async-scheduling-off"][0]
    assert known(line, "vllm", "0.32.0") is not None
    assert known(line, "vllm", "0.33.0") is None
    assert known(line, "vllm", None) is not None
    assert known(line, "sglang", "0.32.0") is None
    assert known(line, "", None) is not None


@pytest.mark.parametrize(
    ("version", "versions", "inside"),
    [
        ("0.5.15", ">=0.5,<0.6", True),
        ("0.6.0", ">=0.5,<0.6", False),
        ("0.5.23+sim", "<0.5.23", False),
        ("0.5.15", "<0.5.23", True),
        ("b11434", ">=11000", True),
        ("0.33", "==0.33.0", True),
        ("0.33", ">0.33", False),
        ("0.33", "<=0.33", True),
        (None, "<1", True),
        ("unknown", "<1", True),
        ("9", "", True),
    ],
)
def test_ranges(version: str | None, versions: str, inside: bool) -> None:
    assert in_range(version, versions) is inside


def test_harmless_lines_are_no_worry_to_their_own_engine() -> None:
    line = LINES["no-api-key"][0]
    assert worrying((line, "W odd"), "llama.cpp") == ("W odd",)
    assert worrying((line,), "") == ()
    assert worrying((line,), "vllm") == (line,)


def test_the_page_names_every_trap() -> None:
    page = "\n".join(as_markdown())
    assert all(trap.name in page for trap in TRAPS if not trap.harmless)
    assert all(line.count("|") == 9 for line in page.splitlines() if line.startswith("| `"))
