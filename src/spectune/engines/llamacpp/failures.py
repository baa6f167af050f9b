"""Why llama-server did not serve, read from the end of its log."""

from __future__ import annotations

import difflib
import re

from spectune.domain.errors import EngineFailure, FailureKind
from spectune.engines.common.failures import cause, diagnosed, named, tail
from spectune.engines.common.texts import Groups
from spectune.engines.llamacpp.knobs import CANONICAL, FLAGS, RENAMED
from spectune.engines.llamacpp.methods import OTHER_TYPES, TYPES


def diagnose(failure: EngineFailure) -> EngineFailure:
    """The failure with its cause named, or the failure itself."""
    log = tail(failure)
    found = diagnosed(failure, log, _CAUSES)
    if found is not failure:
        return found
    for signal, name, seen, kind, message, advice in _SIGNALS:
        if seen in log and _ended_by(f"{failure.message}\n{log}", signal, name):
            return named(failure, kind, message, advice)
    if _FULL in log:
        return named(failure, FailureKind.KV_TOO_SMALL, "the KV cache was full", "Raise ctx-size or lower parallel.")
    return failure


def _ended_by(text: str, signal: int, name: str) -> bool:
    return bool(
        re.search(rf"\b(?:code|status|signal|rc)\b\W{{0,3}}(?:-{signal}|{128 + signal})\b|\b{name}\b", text)
    ) or (bool(re.search(rf"\bsignal {signal}\b", text)))


def _argument(flag: str) -> str:
    """The flag as llama-server names it, and its long name where it was a short one."""
    name = CANONICAL.get(flag.lstrip("-"))
    return flag if name is None or flag == f"--{name}" else f"{flag} (--{name})"


def _bad_value(groups: Groups) -> str:
    flag, words = groups
    said = {"stoi": "not a whole number, or too large", "stof": "not a number", "stod": "not a number"}
    return f"llama-server refuses the value of {_argument(flag)}: {said.get(words, words)}"


def _unknown_flag_advice(groups: Groups) -> str:
    name = groups[0].lstrip("-")
    if name in RENAMED:
        return f"Use --{RENAMED[name]}."
    known = [spelling for spelling, flag in FLAGS.items() if not flag.removed]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"Did you mean '{near[0]}'?" if near else "Compare with llama-server --help; the release may be another."


def _gigabytes(groups: Groups) -> str:
    device, size = groups
    return f"llama-server could not allocate {int(size) / 1e9:.1f} GB ({device})"


_FULL = "Context size has been exceeded"
"""Said of single requests too, so it explains an end only when nothing else does."""

_MEMORY_ADVICE = "Lower ctx-size or parallel, choose a smaller cache-type-k and cache-type-v, or a smaller model."
_NOT_WHOLE = "The file is not a whole GGUF file: copy or download it again."


_CAUSES = (
    cause(
        r"couldn't bind HTTP server socket, hostname: (\S{1,255}), port: (\d{1,5})",
        FailureKind.PORT_TAKEN,
        "port {2} on {1} can't be bound: another program listens there, or the address is not this machine's",
        "Stop the other program, or give another service.port.",
    ),
    cause(
        r"error while loading shared libraries: ([^:\s]{1,255}):",
        FailureKind.MISSING_LIBRARY,
        "llama-server needs the shared library {1}, which is not installed",
        "Install it, or set LD_LIBRARY_PATH in service.env.",
    ),
    cause(
        r"version `(GLIBC\w*_[\d.]{1,20})' not found",
        FailureKind.MISSING_LIBRARY,
        "llama-server was built for a newer system: it needs {1}",
        "Build it on this machine (binary: auto).",
    ),
    cause(
        r"error while handling argument \"(-[^\"]{1,100})\": the argument has been removed\. use ([^\n]{1,200})",
        FailureKind.BAD_ARGUMENT,
        "llama-server has removed {1}",
        "Use {2}.",
    ),
    cause(
        r"unknown speculative type: ([^\n]{0,100})",
        FailureKind.BAD_ARGUMENT,
        "llama-server has no speculation type '{1}' (--spec-type)",
        f"It has none, {', '.join([*TYPES, *sorted(OTHER_TYPES)])}.",
    ),
    cause(
        r"error while handling (?:argument|environment variable) \"([^\"]{1,100})\": ([^\n]{0,200})",
        FailureKind.BAD_ARGUMENT,
        _bad_value,
        "Correct it in service.args, or in the candidate.",
    ),
    cause(
        r"error: invalid argument: (\S{1,100})",
        FailureKind.BAD_ARGUMENT,
        "llama-server has no argument {1}",
        _unknown_flag_advice,
    ),
    cause(
        r"quantized V cache requires flash_attn",
        FailureKind.BAD_ARGUMENT,
        "a quantised cache-type-v needs flash attention",
        "Set flash-attn to on, or cache-type-v to f16.",
    ),
    cause(
        r"(synthetic acceptance (?:rates must|length|requires at least)[^\n]{0,200})",
        FailureKind.BAD_ARGUMENT,
        "simulated acceptance does not fit the speculation: {1}",
        "spec-synth-rates needs one value for each drafted position.",
    ),
    cause(
        r"failed to initialize speculative decoding context: ([^\n]{1,300})",
        FailureKind.DRAFT_MODEL,
        "speculation did not come up: {1}",
        "Take a draft model with the target's own vocabulary.",
    ),
    cause(
        r"synthetic acceptance requires an initialized speculative",
        FailureKind.BAD_ARGUMENT,
        "simulated acceptance needs a speculation method",
        "Add spec-type, or remove spec-synth-len and spec-synth-rates.",
    ),
    cause(
        r"failed to allocate (\S{1,50}) buffer of size (\d{1,24})",
        FailureKind.OUT_OF_MEMORY,
        _gigabytes,
        _MEMORY_ADVICE,
    ),
    cause(
        r"(failed to allocate buffer for kv cache|out of memory|OutOfDeviceMemory|std::bad_alloc|insufficient memory)",
        FailureKind.OUT_OF_MEMORY,
        "llama-server ran out of memory ({1})",
        _MEMORY_ADVICE,
    ),
    cause(
        r"context type MTP requested but model doesn't contain MTP layers",
        FailureKind.DRAFT_MODEL,
        "method mtp needs a model with MTP layers, and this one has none",
        "Take another method, or a GGUF that was converted with its MTP layers.",
    ),
    cause(
        r"failed to open GGUF file '([^'\n]{1,4096})' \(([^)\n]{1,100})\)",
        FailureKind.DRAFT_MODEL,
        "the draft model {1} can't be opened: {2}",
        "Correct the candidate's draft_model.",
        then=r"failed to load draft model",
    ),
    cause(
        r"failed to load draft model, '([^'\n]{1,4096})'",
        FailureKind.DRAFT_MODEL,
        "the draft model {1} can't be loaded",
        _NOT_WHOLE,
    ),
    cause(
        r"failed to create MTP context",
        FailureKind.DRAFT_MODEL,
        "llama-server could not create the draft model's context",
        "Lower ctx-size, or take another draft model.",
    ),
    cause(
        r"failed to open GGUF file '([^'\n]{1,4096})' \(([^)\n]{1,100})\)",
        FailureKind.MODEL_MISSING,
        "the model {1} can't be opened: {2}",
        "Correct service.model.",
    ),
    cause(
        r"unknown model architecture: '([^'\n]{1,100})'",
        FailureKind.MODEL_BROKEN,
        "this llama-server does not know the model architecture '{1}'",
        "Take a newer llama.cpp.",
    ),
    cause(
        r"(?:error loading model: |gguf_init_from_reader: )"
        r"(tensor '[^'\n]{1,200}' data is not within the file bounds|failed to read [^\n]{1,100}"
        r"|invalid magic[^\n]{1,60})",
        FailureKind.MODEL_BROKEN,
        "the model {2} can't be read: {1}",
        _NOT_WHOLE,
        then=r"failed to load model, '([^'\n]{1,4096})'",
    ),
    cause(
        r"failed to load model, '([^'\n]{1,4096})'",
        FailureKind.MODEL_BROKEN,
        "the model {1} can't be loaded",
        "See the log's end for llama-server's own words.",
    ),
    cause(
        r"(GGML_ASSERT\([^\n]{1,300}\) failed)",
        FailureKind.EXITED,
        "llama-server stopped at an assertion: {1}",
        "This is a fault of llama.cpp with these settings; try others, or another release.",
    ),
)
"""In order: the first that is found names the cause, so the special comes before the general."""

_SIGNALS = (
    (
        9,
        "SIGKILL",
        "",
        FailureKind.OUT_OF_MEMORY,
        "llama-server was killed (SIGKILL), most likely by the kernel because memory ran out",
        f"See the kernel's log (dmesg). {_MEMORY_ADVICE}",
    ),
    (
        4,
        "SIGILL|Illegal instruction",
        "AMX model buffer",
        FailureKind.EXITED,
        "llama-server died of its code for AMX (SIGILL), which GCC 12 compiles wrongly",
        "Set repack: false (--no-repack), which does without, or build it with -U__AMX_INT8__ in CFLAGS and CXXFLAGS.",
    ),
    (
        4,
        "SIGILL|Illegal instruction",
        "",
        FailureKind.EXITED,
        "llama-server uses instructions that this CPU does not have (SIGILL)",
        "It was built for another CPU: build it on this machine (binary: auto).",
    ),
    (11, "SIGSEGV|Segmentation fault", "", FailureKind.EXITED, "llama-server crashed (SIGSEGV)", "See the log's end."),
    (6, "SIGABRT|Aborted", "", FailureKind.EXITED, "llama-server aborted itself (SIGABRT)", "See the log's end."),
)
"""Signal, how its end is spelled, what the log has to hold, and what it means. In order, the special first."""
