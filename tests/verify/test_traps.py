"""The registry of traps: each entry is triggered by one case and not by another."""

from __future__ import annotations

import pytest

from spectune.verify.catalogue import CHECKS
from spectune.verify.traps import TRAPS, as_markdown, in_range, known, worrying

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

ELSEWHERE = {
    "prefix-cache-hit": "load",
    "tokens-unknown": "load",
    "load-not-reached": "load",
}
"""Doubts of the measurement that traps refer to."""


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


def test_every_trap_is_caught_by_something_that_exists() -> None:
    """What no line tells must be looked at by a check, which has cases of its own, or by a doubt."""
    names = {check.name for check in CHECKS} | set(ELSEWHERE)
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
