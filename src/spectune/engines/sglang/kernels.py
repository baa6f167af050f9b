"""What the log says about kernels: tuned or default MoE configurations, fused all-reduce, prefill graphs."""

from __future__ import annotations

import re

_FILE = re.compile(
    r"/triton_(\d+(?:_\d+){1,2})/E=(\d{1,6}),N=(\d{1,9}),device_name=([^,/\s]+?)((?:,[^/]*?)?)(_down)?\.json"
)
_TUNE = (
    "to tune: run benchmark/kernels/fused_moe_triton/tuning_fused_moe_triton.py of SGLang's repository with this model "
    "and tp-size and --tune on this GPU (hours), put the JSON into <dir>/configs/triton_{version}/ and set "
    "SGLANG_MOE_CONFIG_DIR=<dir> in service.env"
)
_FUSION_ON = re.compile(r"Auto-enabling FlashInfer AllReduce Fusion on (\S+) for (\w+)")
_FUSION_OFF = re.compile(r"FlashInfer allreduce fusion is forcibly disabled")
_PREFILL = re.compile(
    r"^Disable prefill CUDA graph because|(?:Breakable|Full) (?:prefill )?CUDA graph is incompatible with"
)


def kernel_note(message: str) -> str | None:
    """A message about kernels as one sentence for people, None where it is about something else.

    The same fact gives the same note whichever GPU's process tells it, so that notes can be told apart by their text.
    """
    if "MoE" in message and (note := _moe(message)):
        return note
    if match := _FUSION_ON.search(message):
        return (
            f"all-reduce fusion: on by SGLang's own choice ({match[1]}, {match[2]}); "
            "enforce-disable-flashinfer-allreduce-fusion is the knob to compare against"
        )
    if _FUSION_OFF.search(message):
        return "all-reduce fusion: switched off by enforce-disable-flashinfer-allreduce-fusion"
    if _PREFILL.search(message):
        return "prompts are computed without CUDA graphs"
    return None


def _moe(message: str) -> str | None:
    files = list(_FILE.finditer(message))
    if "Deterministic inference is enabled, using default MoE kernel config" in message:
        return "MoE kernels: default configuration, because deterministic inference is on"
    if not files:
        return None
    wanted = files[0]
    what = _shape(wanted)
    if "Down MoE config file not found" in message or "down_moe=False" in message:
        return f"MoE kernels: no tuned configuration of the down projection for {what}; the up projection's is used"
    version = wanted[1].replace("_", ".")
    if "Using default MoE kernel config" in message:
        tune = _TUNE.format(version=wanted[1])
        return f"MoE kernels: default configuration for {what}, none is tuned for Triton {version}; {tune}"
    if "Fallback to triton version" in message:
        other = files[1][1].replace("_", ".") if len(files) > 1 else "another version"
        tune = _TUNE.format(version=wanted[1])
        return (
            f"MoE kernels: configuration for {what} tuned for another Triton version ({other}, here {version}); {tune}"
        )
    if "Using MoE kernel config from" in message:
        return f"MoE kernels: tuned configuration for {what} (Triton {version})"
    return None


def _shape(file: re.Match[str]) -> str:
    extra = re.sub(r",(?=\S)", ", ", file[5]).strip(", ")
    return f"E={file[2]}, N={file[3]} on {file[4].replace('_', ' ')}" + (f" ({extra})" if extra else "")
