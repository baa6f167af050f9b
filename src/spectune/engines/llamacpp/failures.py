"""Why llama-server did not serve, read from the end of its log."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass

from spectune.domain.errors import EngineFailure, FailureKind
from spectune.engines.llamacpp.knobs import CANONICAL, FLAGS, RENAMED
from spectune.engines.llamacpp.methods import OTHER_TYPES, TYPES

_Groups = tuple[str, ...]
_Text = str | Callable[[_Groups], str]

_TAIL = 1 << 18
"""Characters of log that are searched; a failing start writes a fraction of this."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One way to fail.

    Attributes:
        pattern: found anywhere in the log.
        kind: what it means.
        message, advice: with {1}, {2} for the groups of `pattern` and `also`, or made from them.
        also: must be found too, where the first says too little.
    """

    pattern: re.Pattern[str]
    kind: FailureKind
    message: _Text
    advice: _Text = ""
    also: re.Pattern[str] | None = None

    def groups(self, log: str) -> _Groups | None:
        """What the log says, None when this is not its cause."""
        first = self.pattern.search(log)
        if first is None:
            return None
        second = self.also.search(log) if self.also else None
        if self.also and second is None:
            return None
        return (*first.groups(""), *(second.groups("") if second else ()))


def diagnose(failure: EngineFailure) -> EngineFailure:
    """The failure with its cause named, or the failure itself. A server that died while being measured keeps that
    kind, since it had served until then."""
    log = failure.log_tail[-_TAIL:]
    for cause in _CAUSES:
        groups = cause.groups(log)
        if groups is not None:
            return _named(failure, cause.kind, _filled(cause.message, groups), _filled(cause.advice, groups))
    for signal, name, kind, message, advice in _SIGNALS:
        if _ended_by(f"{failure.message}\n{log}", signal, name):
            return _named(failure, kind, message, advice)
    if _FULL in log:
        return _named(failure, FailureKind.KV_TOO_SMALL, "the KV cache was full", "Raise ctx-size or lower parallel.")
    return failure


def _named(failure: EngineFailure, kind: FailureKind, message: str, advice: str) -> EngineFailure:
    if failure.kind is FailureKind.DIED_MEASURING:
        return EngineFailure(failure.kind, f"{failure.message}: {message}", advice or failure.advice, failure.log_tail)
    return EngineFailure(kind, message, advice or failure.advice, failure.log_tail)


def _filled(text: _Text, groups: _Groups) -> str:
    if callable(text):
        return text(groups)
    return re.sub(r"\{(\d)\}", lambda place: groups[int(place[1]) - 1], text)


def _ended_by(text: str, signal: int, name: str) -> bool:
    return bool(
        re.search(rf"\b(?:code|status|signal|rc)\b\W{{0,3}}(?:-{signal}|{128 + signal})\b|\b{name}\b", text)
    ) or (bool(re.search(rf"\bsignal {signal}\b", text)))


def _argument(flag: str) -> str:
    """The flag as llama-server names it, and its long name where it was a short one."""
    name = CANONICAL.get(flag.lstrip("-"))
    return flag if name is None or flag == f"--{name}" else f"{flag} (--{name})"


def _bad_value(groups: _Groups) -> str:
    flag, words = groups
    said = {"stoi": "not a whole number, or too large", "stof": "not a number", "stod": "not a number"}
    return f"llama-server refuses the value of {_argument(flag)}: {said.get(words, words)}"


def _unknown_flag_advice(groups: _Groups) -> str:
    name = groups[0].lstrip("-")
    if name in RENAMED:
        return f"Use --{RENAMED[name]}."
    known = [spelling for spelling, flag in FLAGS.items() if not flag.removed]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"Did you mean '{near[0]}'?" if near else "Compare with llama-server --help; the release may be another."


def _gigabytes(groups: _Groups) -> str:
    device, size = groups
    return f"llama-server could not allocate {int(size) / 1e9:.1f} GB ({device})"


_FULL = "Context size has been exceeded"
"""Said of single requests too, so it explains an end only when nothing else does."""

_MEMORY_ADVICE = "Lower ctx-size or parallel, choose a smaller cache-type-k and cache-type-v, or a smaller model."
_NOT_WHOLE = "The file is not a whole GGUF file: copy or download it again."


def _cause(pattern: str, kind: FailureKind, message: _Text, advice: _Text = "", also: str = "") -> Cause:
    return Cause(re.compile(pattern), kind, message, advice, re.compile(also) if also else None)


_CAUSES = (
    _cause(
        r"couldn't bind HTTP server socket, hostname: (\S{1,255}), port: (\d{1,5})",
        FailureKind.PORT_TAKEN,
        "port {2} on {1} can't be bound: another program listens there, or the address is not this machine's",
        "Stop the other program, or give another service.port.",
    ),
    _cause(
        r"error while loading shared libraries: ([^:\s]{1,255}):",
        FailureKind.MISSING_LIBRARY,
        "llama-server needs the shared library {1}, which is not installed",
        "Install it, or set LD_LIBRARY_PATH in service.env.",
    ),
    _cause(
        r"version `(GLIBC\w*_[\d.]{1,20})' not found",
        FailureKind.MISSING_LIBRARY,
        "llama-server was built for a newer system: it needs {1}",
        "Build it on this machine (binary: auto).",
    ),
    _cause(
        r"error while handling argument \"(-[^\"]{1,100})\": the argument has been removed\. use ([^\n]{1,200})",
        FailureKind.BAD_ARGUMENT,
        "llama-server has removed {1}",
        "Use {2}.",
    ),
    _cause(
        r"unknown speculative type: ([^\n]{0,100})",
        FailureKind.BAD_ARGUMENT,
        "llama-server has no speculation type '{1}' (--spec-type)",
        f"It has none, {', '.join([*TYPES, *sorted(OTHER_TYPES)])}.",
    ),
    _cause(
        r"error while handling (?:argument|environment variable) \"([^\"]{1,100})\": ([^\n]{0,200})",
        FailureKind.BAD_ARGUMENT,
        _bad_value,
        "Correct it in service.args, or in the candidate.",
    ),
    _cause(
        r"error: invalid argument: (\S{1,100})",
        FailureKind.BAD_ARGUMENT,
        "llama-server has no argument {1}",
        _unknown_flag_advice,
    ),
    _cause(
        r"quantized V cache requires flash_attn",
        FailureKind.BAD_ARGUMENT,
        "a quantised cache-type-v needs flash attention",
        "Set flash-attn to on, or cache-type-v to f16.",
    ),
    _cause(
        r"(synthetic acceptance (?:rates must|length|requires at least)[^\n]{0,200})",
        FailureKind.BAD_ARGUMENT,
        "simulated acceptance does not fit the speculation: {1}",
        "spec-synth-rates needs one value for each drafted position.",
    ),
    _cause(
        r"failed to initialize speculative decoding context: ([^\n]{1,300})",
        FailureKind.DRAFT_MODEL,
        "speculation did not come up: {1}",
        "Take a draft model with the target's own vocabulary.",
    ),
    _cause(
        r"synthetic acceptance requires an initialized speculative",
        FailureKind.BAD_ARGUMENT,
        "simulated acceptance needs a speculation method",
        "Add spec-type, or remove spec-synth-len and spec-synth-rates.",
    ),
    _cause(
        r"failed to allocate (\S{1,50}) buffer of size (\d{1,24})",
        FailureKind.OUT_OF_MEMORY,
        _gigabytes,
        _MEMORY_ADVICE,
    ),
    _cause(
        r"(failed to allocate buffer for kv cache|out of memory|OutOfDeviceMemory|std::bad_alloc|insufficient memory)",
        FailureKind.OUT_OF_MEMORY,
        "llama-server ran out of memory ({1})",
        _MEMORY_ADVICE,
    ),
    _cause(
        r"context type MTP requested but model doesn't contain MTP layers",
        FailureKind.DRAFT_MODEL,
        "method mtp needs a model with MTP layers, and this one has none",
        "Take another method, or a GGUF that was converted with its MTP layers.",
    ),
    _cause(
        r"failed to open GGUF file '([^'\n]{1,4096})' \(([^)\n]{1,100})\)",
        FailureKind.DRAFT_MODEL,
        "the draft model {1} can't be opened: {2}",
        "Correct the candidate's draft_model.",
        also=r"failed to load draft model",
    ),
    _cause(
        r"failed to load draft model, '([^'\n]{1,4096})'",
        FailureKind.DRAFT_MODEL,
        "the draft model {1} can't be loaded",
        _NOT_WHOLE,
    ),
    _cause(
        r"failed to create MTP context",
        FailureKind.DRAFT_MODEL,
        "llama-server could not create the draft model's context",
        "Lower ctx-size, or take another draft model.",
    ),
    _cause(
        r"failed to open GGUF file '([^'\n]{1,4096})' \(([^)\n]{1,100})\)",
        FailureKind.MODEL_MISSING,
        "the model {1} can't be opened: {2}",
        "Correct service.model.",
    ),
    _cause(
        r"unknown model architecture: '([^'\n]{1,100})'",
        FailureKind.MODEL_BROKEN,
        "this llama-server does not know the model architecture '{1}'",
        "Take a newer llama.cpp.",
    ),
    _cause(
        r"(?:error loading model: |gguf_init_from_reader: )"
        r"(tensor '[^'\n]{1,200}' data is not within the file bounds|failed to read [^\n]{1,100}"
        r"|invalid magic[^\n]{1,60})",
        FailureKind.MODEL_BROKEN,
        "the model {2} can't be read: {1}",
        _NOT_WHOLE,
        also=r"failed to load model, '([^'\n]{1,4096})'",
    ),
    _cause(
        r"failed to load model, '([^'\n]{1,4096})'",
        FailureKind.MODEL_BROKEN,
        "the model {1} can't be loaded",
        "See the log's end for llama-server's own words.",
    ),
    _cause(
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
        FailureKind.OUT_OF_MEMORY,
        "llama-server was killed (SIGKILL), most likely by the kernel because memory ran out",
        f"See the kernel's log (dmesg). {_MEMORY_ADVICE}",
    ),
    (
        4,
        "SIGILL|Illegal instruction",
        FailureKind.EXITED,
        "llama-server uses instructions that this CPU does not have (SIGILL)",
        "It was built for another CPU: build it on this machine (binary: auto).",
    ),
    (11, "SIGSEGV|Segmentation fault", FailureKind.EXITED, "llama-server crashed (SIGSEGV)", "See the log's end."),
    (6, "SIGABRT|Aborted", FailureKind.EXITED, "llama-server aborted itself (SIGABRT)", "See the log's end."),
)
