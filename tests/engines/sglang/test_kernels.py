from __future__ import annotations

import pytest

from spectune.engines.sglang.kernels import kernel_note

ROOT = "/opt/site/sglang/srt/layers/moe/moe_runner/triton_utils/configs"
FILE = f"{ROOT}/triton_3_6_0/E=256,N=512,device_name=NVIDIA_H200.json"
FP8 = f"{ROOT}/triton_3_6_0/E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json"
OTHER = f"{ROOT}/triton_3_5_1/E=256,N=512,device_name=NVIDIA_H200.json"
DOWN = FILE.replace(".json", "_down.json")

NOTES = (
    (
        f"Using MoE kernel config from {FILE}.",
        "MoE kernels: tuned configuration for E=256, N=512 on NVIDIA H200 (Triton 3.6.0)",
        False,
    ),
    (
        f"Using MoE kernel config from {FP8}.",
        (
            "MoE kernels: tuned configuration for E=128, N=768 on NVIDIA H200 (dtype=fp8_w8a8, block_shape=[128, 128]) "
            "(Triton 3.6.0)"
        ),
        False,
    ),
    (
        (
            f"Config file not found at {FILE}. Fallback to triton version 3.5.1 and use MoE kernel config from "
            f"{OTHER}. Performance might be sub-optimal!"
        ),
        (
            "MoE kernels: configuration for E=256, N=512 on NVIDIA H200 tuned for another Triton version (3.5.1, here "
            "3.6.0); to tune:"
        ),
        True,
    ),
    (
        (
            f"Using default MoE kernel config. Performance might be sub-optimal! Config file not found at {FILE}, "
            "you can create them with https://github.com/sgl-project/sglang/tree/main/benchmark/kernels/fused_moe_triton"
        ),
        "MoE kernels: default configuration for E=256, N=512 on NVIDIA H200, none is tuned for Triton 3.6.0; to tune:",
        True,
    ),
    (
        f"Using MoE kernel config with down_moe=False. Performance might be bad! Config file not found at {DOWN}",
        (
            "MoE kernels: no tuned configuration of the down projection for E=256, N=512 on NVIDIA H200; the up "
            "projection's is used"
        ),
        False,
    ),
    (
        f"Down MoE config file not found at {DOWN}; reusing the tuned up-projection config without TMA.",
        (
            "MoE kernels: no tuned configuration of the down projection for E=256, N=512 on NVIDIA H200; the up "
            "projection's is used"
        ),
        False,
    ),
    (
        "Deterministic inference is enabled, using default MoE kernel config.",
        "MoE kernels: default configuration, because deterministic inference is on",
        False,
    ),
    (
        "Auto-enabling FlashInfer AllReduce Fusion on SM90/SM10X for Qwen3MoeForCausalLM",
        "all-reduce fusion: on by SGLang's own choice (SM90/SM10X, Qwen3MoeForCausalLM)",
        False,
    ),
    (
        "FlashInfer allreduce fusion is forcibly disabled via --enforce-disable-flashinfer-allreduce-fusion.",
        "all-reduce fusion: switched off",
        False,
    ),
    (
        "Breakable CUDA graph is incompatible with multimodal model; disabling prefill CUDA graph.",
        "prompts are computed without CUDA graphs",
        False,
    ),
)


@pytest.mark.parametrize(("line", "begins", "tells"), NOTES, ids=[row[0][:50] for row in NOTES])
def test_notes(line: str, begins: str, tells: bool) -> None:
    note = kernel_note(line)
    assert note is not None
    assert note.startswith(begins)
    assert ("tuning_fused_moe_triton.py" in note and "<dir>/configs/triton_3_6_0/" in note) is tells


@pytest.mark.parametrize(
    "line", ["", "FlashInfer TRTLLM MoE deferred finalize is disabled", "Using MoE kernel config from nowhere"]
)
def test_other_lines_are_no_notes(line: str) -> None:
    assert kernel_note(line) is None
