from __future__ import annotations

import pytest

from spectune.domain.deployment import Meaning
from spectune.engines.common.adjustments import adjustment
from spectune.engines.vllm import VLLM
from spectune.engines.vllm.adjustments import SENTENCES
from tests.engines.vllm.recorded import evidence, stamped, warned

LINES: tuple[tuple[str, str, str], ...] = (
    # name, a line that announces it, a similar one that does not
    (
        "async-scheduling-off",
        "Async scheduling not supported with ngram-based speculative decoding and will be disabled.",
        "Async scheduling is on",
    ),
    (
        "async-scheduling-off",
        (
            "Async scheduling is disabled because the V1 model runner does not support it with ngram-based speculative "
            "decoding."
        ),
        "The V1 model runner is used.",
    ),
    (
        "async-scheduling-off",
        "Async scheduling is not compatible with disable_padded_drafter_batch=True and will be disabled.",
        "disable_padded_drafter_batch=True",
    ),
    (
        "async-scheduling-off",
        "Async scheduling will be disabled because it is not supported with the `ray` distributed executor backend. ",
        "Using the `ray` distributed executor backend.",
    ),
    (
        "model-runner-v1",
        "Model Runner V2 requires Triton; using the V1 model runner instead.",
        "Using V2 Model Runner",
    ),
    (
        "model-runner-changed",
        "Model Runner V2 does not yet support speculative method 'suffix'; using the V1 model runner instead.",
        "Model Runner V2 supports this",
    ),
    (
        "schedule-graphs-piecewise",
        (
            "Dynamic speculative decoding changes the target verification length at runtime. Overriding cudagraph_mode "
            "from FULL_AND_PIECEWISE to PIECEWISE for reliability. Use VLLM_USE_V2_MODEL_RUNNER=1 if you want to use "
            "full CUDA graphs."
        ),
        "Dynamic speculative decoding is on",
    ),
    (
        "schedule-dropped",
        (
            "Dynamic speculative decoding is not supported with the 'suffix' speculative method on Model Runner V1. "
            "Disabling num_speculative_tokens_per_batch_size and falling back to static num_speculative_tokens=3."
        ),
        "num_speculative_tokens_per_batch_size=[[1, 4, 3]]",
    ),
    (
        "scheduled-tokens-set",
        (
            "max_num_scheduled_tokens is set to 2048 based on the speculative decoding settings. This may lead to "
            "suboptimal performance. Consider increasing max_num_batched_tokens to accommodate the additional draft "
            "token slots, or decrease num_speculative_tokens."
        ),
        "max_num_scheduled_tokens=2048",
    ),
    (
        "active-requests-reduced",
        (
            "The dflash draft pass needs 16 query tokens per request within max_num_batched_tokens=2048. Overriding "
            "max_num_active_seqs from 256 to 128."
        ),
        "max_num_active_seqs=128",
    ),
    (
        "context-reduced",
        (
            "The draft model's max_model_len (2048) is smaller than the target model's (8192) and the V2 model runner "
            "can't skip speculation for longer sequences; reducing max_model_len to 2048."
        ),
        "Using max model len 2048",
    ),
    (
        "draft-context-set",
        "Overriding draft model max model len from 8192 to 2048",
        "draft model max model len is 2048",
    ),
    (
        "draft-context-stretched",
        (
            "Overriding draft model max_position_embeddings from 2048 to the target model's max_model_len (8192). "
            "Drafts may suffer."
        ),
        "max_position_embeddings is 2048",
    ),
    (
        "mtp-layer-reused",
        (
            "Enabling num_speculative_tokens > 1 will run multiple times of forward on same MTP layer,which may result "
            "in lower acceptance rate"
        ),
        "num_speculative_tokens is 1",
    ),
    ("depth-default", "Defaulted num_speculative_tokens to 24 for suffix decoding.", "num_speculative_tokens is 24"),
    (
        "method-renamed",
        "method `deepseek_mtp` is deprecated and replaced with mtp.",
        "method `mtp`",
    ),
    (
        "lora-budget",
        "Consider increasing max_num_batched_tokens or decreasing num_speculative_tokens",
        "max_num_batched_tokens is 2048",
    ),
    ("graph-limit-reduced", "Truncating max_cudagraph_capture_size to 40", "max_cudagraph_capture_size is 40"),
    (
        "graph-limit-reduced",
        "max_cudagraph_capture_size is adjusted. original_size=42,truncated_size=40",
        "original_size=42",
    ),
    (
        "graphs-changed",
        (
            "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode for attention backend Foo (support: "
            "AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE); setting cudagraph_mode=PIECEWISE"
        ),
        "cudagraph_mode=PIECEWISE",
    ),
    (
        "graphs-changed",
        "Encoder-decoder models do not support FULL. Overriding cudagraph_mode to FULL_DECODE_ONLY.",
        "cudagraph_mode is FULL_DECODE_ONLY.",
    ),
    (
        "graphs-changed",
        (
            "Cudagraph mode CUDAGraphMode.FULL_AND_PIECEWISE requires piecewise capture, but the loaded model provides "
            "neither a compiled submodule nor breakable CUDA graphs. Overriding to CUDAGraphMode.FULL_DECODE_ONLY."
        ),
        "Cudagraph mode CUDAGraphMode.FULL",
    ),
    (
        "eager",
        (
            "Enforce eager set, disabling torch.compile, CUDAGraphs, and JIT kernel warmup. This is equivalent to "
            "setting -cc.mode=none"
        ),
        "Eager",
    ),
    (
        "eager-compilation",
        "Inductor compilation was disabled by user settings, optimizations settings will be ignored.",
        "Inductor compilation is on",
    ),
    ("prefix-cache-off", "Disabling prefix caching: this instance runs the encoder alone", "prefix caching is on"),
    (
        "sampling-parameters",
        "min_p and logit_bias parameters won't work with speculative decoding.",
        "min_p is 0",
    ),
    (
        "cpu-openmp",
        ("Speculative decoding on CPU without Intel OpenMP in LD_PRELOAD will cause significant performance loss."),
        "Speculative decoding on CPU",
    ),
    (
        "kv-dtype-reset",
        "Reset SSM cache type to float32 for accelerated GDN mamba backend 'none'.",
        "SSM cache type is float32",
    ),
    (
        "development-endpoints",
        "SECURITY WARNING: Development endpoints are enabled! This should NOT be used in production!",
        "Development endpoints",
    ),
)


def test_every_sentence_has_its_line() -> None:
    assert [sentence.name for sentence in SENTENCES] == [name for name, _, _ in LINES]


@pytest.mark.parametrize(("at", "name"), [(at, row[0]) for at, row in enumerate(LINES)])
def test_sentences(at: int, name: str) -> None:
    _, line, other = LINES[at]
    assert SENTENCES[at].pattern.search(line)
    found = adjustment(line, SENTENCES)
    assert found is not None
    assert (found.name, found.text) == (name, line)
    assert found.because
    assert bool(found.advice) is (found.meaning is not Meaning.SAME)
    assert "{" not in found.because + found.advice
    assert adjustment(other, SENTENCES) is None


@pytest.mark.parametrize(("name", "line", "_"), LINES, ids=[f"{i} {name}" for i, (name, _, _) in enumerate(LINES)])
def test_sentences_in_a_log(name: str, line: str, _: str) -> None:
    for log in (warned(line, line), stamped(line)):
        seen = VLLM().read(evidence(log))
        assert [adjusted.name for adjusted in seen.adjustments] == [name]
        assert seen.warnings == ()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("active-requests-reduced", "only 128 requests"),
        ("schedule-dropped", "static depth of 3"),
        ("graphs-changed", "in mode PIECEWISE instead of FULL_AND_PIECEWISE"),
        ("scheduled-tokens-set", "at most 2048 tokens"),
    ],
)
def test_numbers_are_told(name: str, words: str) -> None:
    line = next(line for key, line, _ in LINES if key == name)
    found = adjustment(line, SENTENCES)
    assert found is not None
    assert words in found.because


def test_a_dropped_schedule_is_not_the_candidate() -> None:
    line = next(line for key, line, _ in LINES if key == "schedule-dropped")
    (found,) = VLLM().read(evidence(warned(line))).adjustments
    assert found.meaning is Meaning.INVALID


@pytest.mark.parametrize(
    ("line", "runner", "scheduling", "graphs"),
    [
        (LINES[0][1], None, False, None),
        (LINES[1][1], "V1", False, None),
        (LINES[5][1], "V1", None, None),
        ("Using V2 Model Runner", "V2", None, None),
        ("Asynchronous scheduling is enabled.", None, True, None),
        ("Asynchronous scheduling is disabled.", None, False, None),
        (LINES[6][1], None, None, "piecewise"),
        (LINES[19][1], None, None, "piecewise"),
        (LINES[20][1], None, None, "full_decode_only"),
        (LINES[21][1], None, None, "full_decode_only"),
        ("Overriding cudagraph_mode FULL to NONE.", None, None, "none"),
    ],
)
def test_what_may_differ_between_arms(
    line: str, runner: str | None, scheduling: bool | None, graphs: str | None
) -> None:
    settings = VLLM().read(evidence(stamped(line))).settings
    assert settings.get("model-runner") == runner
    assert settings.get("async-scheduling") == scheduling
    assert settings.get("compilation-config.cudagraph_mode") == graphs
