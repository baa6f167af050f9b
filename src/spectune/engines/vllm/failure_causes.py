"""The ways in which vLLM's server fails, by what it writes into its log."""

from __future__ import annotations

import difflib

from spectune.domain.errors import FailureKind
from spectune.engines.common.failures import Cause, cause
from spectune.engines.common.texts import Groups
from spectune.engines.vllm.flags import load
from spectune.engines.vllm.methods import NAMES


def _unrecognised(groups: Groups) -> str:
    flags = [word for word in groups[0].split() if word.startswith("-")]
    return f"this vLLM has no argument {', '.join(flags) or groups[0]}"


def _nearest(groups: Groups) -> str:
    names = [flag.name for flag in load()]
    for word in groups[0].split():
        near = difflib.get_close_matches(word.lstrip("-").split("=")[0], names, n=1) if word.startswith("--") else []
        if near:
            return f"Did you mean '{near[0]}'?"
    return "Compare with the server's --help=all; the version may be another."


def _method(groups: Groups) -> str:
    return f"this vLLM has no speculative method '{groups[0]}'" if groups[0] else "this vLLM lacks the method asked for"


def _invalid_field(groups: Groups) -> str:
    return f"vLLM refuses its {groups[0]}: {groups[1]}: {groups[2]}"


_OOM, _KV, _EXIT = FailureKind.OUT_OF_MEMORY, FailureKind.KV_TOO_SMALL, FailureKind.EXITED
_BAD, _LIBRARY, _DRAFT = FailureKind.BAD_ARGUMENT, FailureKind.MISSING_LIBRARY, FailureKind.DRAFT_MODEL
_MISSING, _BROKEN = FailureKind.MODEL_MISSING, FailureKind.MODEL_BROKEN
_ERROR = r"^(?:\w{1,60}\.){0,9}"
"""Beginning of a traceback's last line."""

_LAST_LINE = r"^((?:\w{1,60}\.){0,9}\w{0,60}(?:Error|Exception|Interrupt)(?:: [^\n]{0,300})?)"
_FREE_MEMORY = (
    "Lower gpu-memory-utilization, max-num-seqs or max-num-batched-tokens, take a smaller draft model, or speculate "
    "less deep."
)
_MORE_KV = (
    "Raise gpu-memory-utilization (on a CPU: VLLM_CPU_KVCACHE_SPACE in service.env, GiB), lower max-model-len, or take "
    "a smaller draft model."
)
_REPORT = "This is a fault of vLLM with these settings; try others, or another version."

CAUSES: tuple[Cause, ...] = (
    cause(
        rf"{_ERROR}OSError: \[Errno 98\] (?:Address already in use|[^\n]{{0,200}}address already in use)",
        FailureKind.PORT_TAKEN,
        "the port is taken: another program listens there",
        "Stop the other program (a leftover of vLLM is named VLLM::EngineCore or VLLM::Worker), or give another "
        "service.port.",
    ),
    cause(
        r"error while attempting to bind on address \('([^']{1,255})', (\d{1,5})[^)]{0,40}\): address already in use",
        FailureKind.PORT_TAKEN,
        "port {2} on {1} is taken: another program listens there",
        "Stop the other program, or give another service.port.",
    ),
    cause(r"error: unrecognized arguments: ([^\n]{1,400})", _BAD, _unrecognised, _nearest),
    cause(
        r"error: ambiguous option: (--[\w-]{1,80})\S{0,80} could match ([^\n]{1,200})",
        _BAD,
        "{1} is the beginning of several flags of this vLLM: {2}",
        "Write the whole name of the one that is meant.",
    ),
    cause(
        r"error: argument (--?[\w-]{1,80})[^:\n]{0,120}: ([^\n]{1,400})",
        _BAD,
        "vLLM refuses the value of {1}: {2}",
        "Correct it in service.args, or in the candidate.",
    ),
    cause(
        r"ValidationError: \d{1,4} validation errors? for SpeculativeConfig\nmethod\n\s+Input should be [^\n]{1,4000}?"
        r"(?:input_value='([^']{0,60})'[^\n]{0,200})?\n",
        _BAD,
        _method,
        f"It has {', '.join(NAMES.values())}, or fewer in an older version.",
    ),
    cause(
        r"ValidationError: \d{1,4} validation errors? for (\w{1,60})\n([\w.]{1,100})\n\s+([^\n]{1,300})",
        _BAD,
        _invalid_field,
        "Correct it in service.args, or in the candidate.",
    ),
    cause(
        r"ValidationError: \d{1,4} validation errors? for (\w{1,60})\n\s+([^\n]{1,400})",
        _BAD,
        "vLLM refuses its {1}: {2}",
        "Correct it in service.args, or in the candidate.",
    ),
    cause(
        r"PackageNotFoundError: No package metadata was found for vllm",
        _LIBRARY,
        "the program vllm does not run in this environment: the package is installed under another name (vllm-cpu)",
        "Give the environment's python as service.binary; the server is started with -m then.",
    ),
    cause(
        r"ImportError: Arctic Inference is required for suffix decoding[^\n]{0,60}`([^`\n]{1,100})`",
        _LIBRARY,
        "suffix decoding needs the package arctic-inference, which is not installed",
        "In the server's environment: {1}.",
    ),
    cause(
        r"operator torchvision::nms does not exist",
        _LIBRARY,
        "torchvision is built for another PyTorch than the installed one",
        "Install the torchvision that belongs to it, or remove torchvision: text models don't need it.",
    ),
    cause(
        rf"{_ERROR}(?:ModuleNotFoundError|ImportError): (?:No module named '?([\w.-]{{1,100}})'?|([^\n]{{1,300}}))",
        _LIBRARY,
        "vLLM lacks a library: {1}{2}",
        "Install it into the server's environment, in the version that this vLLM asks for.",
    ),
    cause(
        r"Synthetic acceptance not supported with CPU sampling",
        _BAD,
        "simulated acceptance does not work on a CPU: the engine ends at the first request",
        "Take rejection_sample_method standard, or a GPU.",
    ),
    cause(
        r"NotImplementedError: [^\n]{0,120}\bfly\b[^\n]{0,120}",
        _BAD,
        "rejection_sample_method fly does not work on this device",
        "Take rejection_sample_method standard.",
    ),
    cause(
        r"NotImplementedError: Unsupported speculative method: '(\w{1,40})'",
        _BAD,
        "neither the model nor the draft model has what method '{1}' drafts with",
        "ngram and suffix need nothing of a model; mtp needs MTP layers in it, eagle a head that was trained for it.",
    ),
    cause(
        r"num_speculative_tokens:\s?(\d{1,6}) must be divisible by n_predict=(\d{1,6})",
        _BAD,
        "the model has {2} MTP layers: a depth above that must be a multiple of it, and {1} is none",
        "Take a depth of at most {2}, or a multiple of it.",
    ),
    cause(
        r"(--spec-\w{1,20}) and --speculative-config\['(\w{1,40})'\] are mutually exclusive",
        _BAD,
        "{1} and the {2} of speculative-config are both given",
        "Keep one of them.",
    ),
    cause(
        r"ValueError: ((?:Currently, async scheduling is only|Async scheduling is not) [^\n]{1,240})",
        _BAD,
        "async-scheduling does not go with this speculation: {1}",
        "Set async-scheduling to false for all candidates.",
    ),
    cause(
        r"requires speculative decoding to be enabled \(via --speculative-config\)",
        _BAD,
        "per-request-spec-decode-metrics was given to a server without speculation",
        "Remove it from service.args.",
    ),
    cause(
        r"Target model vocab_size=(\d{1,9})\. Draft model vocab_size=(\d{1,9})",
        _DRAFT,
        "the draft model has another vocabulary ({2} tokens) than the model ({1})",
        "Take a draft model of the same family.",
    ),
    cause(
        r"(VllmConfig does not have enough slots to schedule a token [^\n]{1,200})",
        _BAD,
        "a step is too small for a token with its drafts: {1}",
        "Raise max-num-batched-tokens, or lower the depth.",
    ),
    cause(
        r"max_num_scheduled_tokens is set to (-?\d{1,9})[^\n]{0,120}does not allow any tokens to be scheduled",
        _BAD,
        "the drafts leave no room in a step (max_num_scheduled_tokens is {1})",
        "Raise max-num-batched-tokens, or lower the depth.",
    ),
    cause(
        r"No valid cudagraph sizes after rounding to multiple of (\d{1,6})",
        _BAD,
        "no graph size is left: with this depth sizes are multiples of {1}",
        "Give larger cudagraph-capture-sizes or max-cudagraph-capture-size, or another depth.",
    ),
    cause(
        r"max seq len \((\d{1,12})\), \(([\d.]{1,12}) GiB KV cache is needed, which is larger than the available KV "
        r"cache memory \(([\d.]{1,12}) GiB\)\.(?: Based on the available memory, the estimated maximum model length is "
        r"(\d{1,12})\.)?",
        _KV,
        lambda groups: (
            f"the KV cache of {groups[2]} GiB is too small for one request of {groups[0]} tokens, which takes "
            f"{groups[1]} GiB" + (f"; {groups[3]} tokens would fit" if groups[3] else "")
        ),
        _MORE_KV,
    ),
    cause(r"No available memory for the cache blocks", _KV, "nothing is left for the KV cache", _MORE_KV),
    cause(
        r"Free memory on device (\S{1,40}) \(([\d.]{1,12})/([\d.]{1,12}) GiB\) on startup is less than [^(\n]{1,120}"
        r"\(([\d.]{1,8}), ([\d.]{1,12}) GiB\)",
        _OOM,
        "{1} has {2} of {3} GiB free, and gpu-memory-utilization {4} asks for {5} GiB",
        "End what else uses the device (a leftover of vLLM is named VLLM::EngineCore), or lower "
        "gpu-memory-utilization.",
    ),
    cause(
        r"CUDA out of memory occurred when warming up sampler with (\d{1,9}) dummy requests",
        _OOM,
        "GPU memory ran out while sampling was tried with {1} requests",
        "Lower max-num-seqs or gpu-memory-utilization.",
    ),
    cause(
        r"(?:CUDA|HIP|XPU) out of memory\. Tried to allocate (\d{1,9}(?:\.\d{1,3})? \w{2,4})",
        _OOM,
        "GPU memory ran out: vLLM could not allocate {1}",
        _FREE_MEMORY,
    ),
    cause(
        rf"{_ERROR}(?:OutOfMemoryError|MemoryError)(?:: ([^\n]{{1,200}}))?$",
        _OOM,
        "memory ran out: {1}",
        _FREE_MEMORY,
    ),
    cause(
        r"Invalid repository ID or local directory specified: '?([^'\n]{1,300})'?",
        _MISSING,
        "there is no model at {1}",
        "Give a directory with config.json, weights and tokenizer.",
    ),
    cause(
        r"(?:OSError|HFValidationError|RepositoryNotFoundError|LocalEntryNotFoundError): ([^\n]{0,200}(?:not a valid "
        r"model identifier|not a local folder|Repo id must|couldn't connect|[Cc]annot find the requested files)"
        r"[^\n]{0,200})",
        _MISSING,
        "the model is not there: {1}",
        "Give a directory with config.json, weights and tokenizer, or a name that can be downloaded.",
    ),
    cause(
        r"(Cannot find any model weights with `[^`\n]{1,300}`)",
        _BROKEN,
        "the model has no weights: {1}",
        "Give a complete directory: config, weights and tokenizer.",
    ),
    cause(
        r"(Model architectures \[[^\]\n]{1,300}\] (?:are not supported|failed to be inspected)[^\n]{0,80})",
        _BROKEN,
        "this vLLM can't run the model: {1}",
        "Take another version.",
    ),
    cause(
        r"SafetensorError: ([^\n]{1,200})",
        _BROKEN,
        "a weights file is damaged: {1}",
        "Copy or download the model again.",
    ),
    cause(
        r"(?:Timed out waiting for engine core|did not become ready|Did not receive [^\n]{0,60}from engine core)"
        r"([^\n]{0,200})",
        FailureKind.NEVER_READY,
        "vLLM's engine process did not answer in time{1}",
        "Raise VLLM_ENGINE_READY_TIMEOUT_S in service.env, for models that load slowly.",
    ),
    cause(
        r"(an illegal memory access was encountered|CUDA error: [^\n]{1,120})",
        _EXIT,
        "a GPU kernel failed: {1}",
        f"{_REPORT} Try another attention-backend.",
    ),
    cause(
        r"WorkerProc (?:hit an exception|failed to start|initialization failed)",
        _EXIT,
        "vLLM's worker stopped at an error: {1}",
        _REPORT,
        _LAST_LINE,
    ),
    cause(
        r"EngineCore (?:failed to start|encountered a fatal error)\.",
        _EXIT,
        "vLLM's engine stopped at an error: {1}",
        _REPORT,
        _LAST_LINE,
    ),
    cause(
        r"Worker proc (\S{1,60}) died unexpectedly(?: \(exit code: (-?\d{1,5})\))?",
        _EXIT,
        lambda groups: f"vLLM's worker {groups[0]} died" + (f" (exit code {groups[1]})" if groups[1] else ""),
        "Exit code -9 means that it was killed, most likely for want of host memory: see the kernel's log (dmesg).",
    ),
    cause(
        r"Failed core proc\(s\): \{'?(\w{1,60})'?: (-?\d{1,5})",
        _EXIT,
        "vLLM's process {1} ended with code {2}",
        "Exit code -9 means that it was killed, most likely for want of host memory: see the kernel's log (dmesg).",
    ),
    cause(r"Fatal Python error: ([^\n]{1,200})", _EXIT, "vLLM crashed: {1}", "See the log's end."),
    cause(
        r"engine core exited unexpectedly",
        _EXIT,
        "vLLM's engine process (EngineCore) ended without a word",
        "Most likely it was killed for want of host memory: see the kernel's log (dmesg).",
    ),
    cause(
        r"^Traceback \(most recent call last\):",
        _EXIT,
        "vLLM stopped at an error: {1}",
        "See the log's end.",
        _LAST_LINE,
    ),
)
"""In order: the first that is found names the cause, so the special comes before the general."""
