"""The ways in which SGLang's server fails, by what it writes into its log."""

from __future__ import annotations

import difflib

from spectune.domain.errors import FailureKind
from spectune.engines.common.failures import Cause, cause
from spectune.engines.common.texts import Groups
from spectune.engines.sglang.flags import RECORDED, load
from spectune.engines.sglang.methods import ALGORITHMS


def _unrecognised(groups: Groups) -> str:
    flags = [word for word in groups[0].split() if word.startswith("--")]
    return f"this SGLang has no argument {', '.join(flags) or groups[0]}"


def _nearest(groups: Groups) -> str:
    flags = [word.lstrip("-").split("=")[0] for word in groups[0].split() if word.startswith("--")]
    renamed = {flag.name: flag.becomes for version in RECORDED for flag in load(version) if flag.becomes}
    names = [flag.name for flag in load(RECORDED[-1])]
    for flag in flags:
        if near := renamed.get(flag) or next(iter(difflib.get_close_matches(flag, names, n=1)), ""):
            return f"Did you mean '{near}'?"
    return "Compare with the server's --help; the version may be another."


def _died(groups: Groups) -> str:
    rank, code = groups
    why = ", killed by the kernel, most likely because host memory ran out" if code == "-9" else ""
    return f"the scheduler of GPU rank {rank} died while starting (exit code {code}{why})"


_FREE_MEMORY = "Lower mem-fraction-static, max-running-requests or cuda-graph-max-bs-decode, or speculate less deep."
_HOST_MEMORY = "See the kernel's log (dmesg). Free host memory, or load fewer copies at a time."
_MODEL_FILES = "Give a complete directory: config, weights, tokenizer, and the processor's files for multimodal models."
_OOM, _KV, _EXIT = FailureKind.OUT_OF_MEMORY, FailureKind.KV_TOO_SMALL, FailureKind.EXITED
_BAD, _LIBRARY, _DRAFT = FailureKind.BAD_ARGUMENT, FailureKind.MISSING_LIBRARY, FailureKind.DRAFT_MODEL
_ERROR = r"^(?:\w+\.)*"
"""Beginning of a traceback's last line; lines with a time stamp tell of errors that SGLang survives."""

_LAST_LINE = r"[\s\S]{0,20000}?^((?:\w+\.)*\w*(?:Error|Exception)(?:: [^\n]{0,300})?)$"

CAUSES: tuple[Cause, ...] = (
    cause(
        r"bind on address \('([^']{1,255})', (\d{1,5})[^)]{0,40}\): address already in use",
        FailureKind.PORT_TAKEN,
        "port {2} on {1} is taken: another program listens there",
        "Stop the other program (a leftover of SGLang is named sglang::), or give another service.port.",
    ),
    cause(
        rf"{_ERROR}ValueError: (\w{{1,40}}) at (\d{{1,5}}) is not available in",
        FailureKind.PORT_TAKEN,
        "SGLang's inner port {2} ({1}) is taken",
        "Stop the other program; SGLang takes ports near service.port for its own processes.",
    ),
    cause(
        r"error: unrecognized arguments: ([^\n]{1,400})",
        _BAD,
        _unrecognised,
        _nearest,
    ),
    cause(
        r"error: ambiguous option: (--[\w-]{1,80})\S{0,80} could match ([^\n]{1,200})",
        _BAD,
        "{1} is the beginning of several flags of this SGLang: {2}",
        "Write the whole name of the one that is meant.",
    ),
    cause(
        r"error: argument (--[\w-]{1,80})[^:\n]{0,120}: ([^\n]{1,400})",
        _BAD,
        "SGLang refuses the value of {1}: {2}",
        "Correct it in service.args, or in the candidate.",
    ),
    cause(
        r"Unknown speculative algorithm name: (\S{1,60})",
        _BAD,
        "this SGLang has no speculative algorithm {1}",
        f"It has {', '.join(ALGORITHMS)}, or fewer in an older version.",
    ),
    cause(
        r"(SGLANG_GRPC_PORT \(\d{1,6}\) must be between 1 and 65535)",
        _BAD,
        "service.port is too high for this SGLang: {1}",
        "Take a port up to 55535.",
    ),
    cause(
        r"(--speculative-num-steps=\S{1,12} is not in the adaptive config candidate_steps \[[^\]\n]{0,200}\])",
        _BAD,
        "the depth is not among those of the schedule: {1}",
        "Take a depth that is in the adaptive config.",
    ),
    cause(
        r"speculative_hook\.py",
        _BAD,
        "SGLang was given steps without topk",
        "Give speculative-num-steps, speculative-eagle-topk and speculative-num-draft-tokens together.",
        then=r"^TypeError: '>' not supported between instances of 'NoneType' and 'int'",
    ),
    cause(
        r"Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=(\d?\.?\d{0,20})"
        r"[\s\S]{0,200}?above (\d\.\d{1,6})",
        _OOM,
        "the weights, the draft's included, leave no room for a KV cache at mem-fraction-static {1}",
        "Raise mem-fraction-static above {2}, take a smaller draft model, or more GPUs.",
    ),
    cause(
        r"Not enough GPU memory for hybrid \(mamba/linear-attention\) state cache\. ([^\n]{0,120})",
        _KV,
        "there is no room for the recurrent states: {1}",
        "Lower max-running-requests or the depth, or raise mem-fraction-static.",
    ),
    cause(
        r"state cache is too small to serve any requests\. ([^\n]{0,120})",
        _KV,
        "the recurrent states that fit are too few for a single request: {1}",
        "Lower max-running-requests or the depth, or raise mem-fraction-static.",
    ),
    cause(
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        _KV,
        "nothing is left for the KV cache",
        "Raise mem-fraction-static, take a smaller draft model, or more GPUs.",
    ),
    cause(
        r"Capture cuda graph failed: (?=[^\n]{0,200}out of memory)([^\n]{1,200})",
        _OOM,
        "memory ran out while graphs were captured: {1}",
        _FREE_MEMORY,
    ),
    cause(
        r"Capture cuda graph failed: ([^\n]{1,200})",
        _EXIT,
        "graphs could not be captured: {1}",
        "Try cuda-graph-backend-decode disabled to see whether it runs without; then another attention-backend.",
    ),
    cause(
        r"CUDA out of memory\. Tried to allocate (\d{1,9}(?:\.\d{1,3})? \w{2,4})",
        _OOM,
        "GPU memory ran out: SGLang could not allocate {1}",
        _FREE_MEMORY,
    ),
    cause(
        r"(CUDA error: out of memory|CUDA out of memory|cudaErrorMemoryAllocation)",
        _OOM,
        "GPU memory ran out ({1})",
        _FREE_MEMORY,
    ),
    cause(
        r"((?:Prefill|Decode) out of memory)\. Try to lower your batch size",
        _KV,
        "the KV cache could not hold a batch ({1})",
        "Lower max-running-requests, or leave more room for the KV cache.",
    ),
    cause(
        r"alloc_req_slots runs out of memory",
        _KV,
        "more requests ran than there are slots",
        "Lower max-running-requests.",
    ),
    cause(
        r"(NCCL (?:error|failure)[^\n]{0,200}|nccl(?:UnhandledCuda|System|Internal|Remote|Invalid\w{1,20})Error"
        r"[^\n]{0,200})",
        _EXIT,
        "the GPUs could not talk to each other: {1}",
        "See that no leftover process holds them, and try disable-custom-all-reduce; NCCL_DEBUG=INFO in service.env "
        "tells more.",
    ),
    cause(
        r"'size_t' has not been declared",
        _LIBRARY,
        "NGRAM's C++ part can't be compiled with this compiler: a header is missing from SGLang's source",
        "Set CXX to 'c++ -include cstddef' in service.env, or take a newer SGLang.",
    ),
    cause(
        rf"{_ERROR}ModuleNotFoundError: No module named '([\w.]{{1,100}})'",
        _LIBRARY,
        "SGLang needs the Python module {1} for these settings, and it is not installed",
        "Install it into SGLang's environment, or choose settings that do not need it.",
    ),
    cause(
        rf"{_ERROR}ImportError: ([^\n]{{1,300}})",
        _LIBRARY,
        "SGLang could not load a module: {1}",
        "Reinstall the packages that SGLang's version names.",
    ),
    cause(
        r"(\S{1,200}\.so[.\d]{0,20}): cannot open shared object file",
        _LIBRARY,
        "the shared library {1} is not installed",
        "Install it, or set LD_LIBRARY_PATH in service.env.",
    ),
    cause(
        r"no kernel image is available for execution",
        _LIBRARY,
        "the installed kernels were not built for this GPU",
        "Install builds of torch and sglang-kernel for it.",
    ),
    cause(
        rf"{_ERROR}OSError: Can't load (\w[\w ]{{1,40}}) for '([^'\n]{{1,4096}})'",
        FailureKind.MODEL_BROKEN,
        "the model {2} has no {1}, or none that can be read",
        _MODEL_FILES,
    ),
    cause(
        r"OSError: (\S{1,4096}) does not appear to have a file named (\S{1,200}?)\.?(?:\s|$)",
        FailureKind.MODEL_BROKEN,
        "the model {1} lacks the file {2}",
        _MODEL_FILES,
    ),
    cause(
        r"Cannot find any model weights with `([^`\n]{1,4096})`",
        FailureKind.MODEL_BROKEN,
        "there are no weights in {1}",
        _MODEL_FILES,
    ),
    cause(
        r"(?:Repo id must (?:be in the form|use alphanumeric)[^\n]{0,120}: |Incorrect path_or_model_id: |"
        r"\bRepository Not Found for url: |No such file or directory: )'?([^'\s]{1,4096})",
        FailureKind.MODEL_MISSING,
        "the model {1} does not exist on this machine",
        "Correct service.model, or the candidate's draft_model.",
    ),
    cause(
        r"Model architectures? (\[[^\]\n]{1,200}\]) (?:are|is) not supported",
        FailureKind.MODEL_BROKEN,
        "this SGLang does not know the model architecture {1}",
        "Take a newer SGLang.",
    ),
    cause(
        r"(requires setting --speculative-draft-model-path)",
        _DRAFT,
        "this method needs a draft model: SGLang {1}",
        "Give the candidate a draft_model.",
    ),
    cause(
        rf"{_ERROR}(?:ValueError|AssertionError): (\S[^\n]{{0,300}}(?:speculative|topk|DFLASH|[Nn]gram)[^\n]{{0,300}})",
        _BAD,
        "SGLang refuses these settings of speculation: {1}",
        "Change the candidate as the message says.",
    ),
    cause(
        r"Scheduler watchdog timeout \(self\.watchdog_timeout=(\d{1,7})",
        _EXIT,
        "a step hung for {1} s, and SGLang's watchdog ended the server",
        "If kernels were being compiled for the first time, start again or raise watchdog-timeout.",
    ),
    cause(
        r"Initialization failed\. warmup error: ([^\n]{0,200})",
        FailureKind.NEVER_READY,
        "the first request after loading failed: {1}",
        "See the log's end; SGLANG_WARMUP_TIMEOUT in service.env gives slow first compilations more time.",
    ),
    cause(
        r"Health check failed\. Server couldn't get a response from detokenizer for last (\d{1,6}) seconds",
        FailureKind.NEVER_READY,
        "the server's HTTP side lives, and no answer came from its scheduler for {1} s: it hangs",
        "Restart it. With speculation, try a smaller depth or another attention-backend.",
    ),
    cause(
        r"Rank (\d{1,5}) scheduler died during initialization \(exit code: -?9\)",
        _OOM,
        lambda groups: _died((groups[0], "-9")),
        _HOST_MEMORY,
    ),
    cause(
        r"Subprocess (\w{1,60}) \(pid=\d{1,10}\) crashed with exit code -9\b",
        _OOM,
        "{1} was killed (SIGKILL), most likely by the kernel because host memory ran out",
        _HOST_MEMORY,
    ),
    cause(
        r"(an illegal memory access was encountered|CUDA error: [^\n]{1,120})",
        _EXIT,
        "a GPU kernel failed: {1}",
        "This is a fault of SGLang with these settings; try another attention-backend, depth or version.",
    ),
    cause(
        r"custom_mask\[: spec_info\.custom_mask\.shape\[0\]\] = spec_info\.custom_mask",
        _EXIT,
        "triton attention failed at a verify step that filled the largest captured batch: "
        "the mask of a full batch is larger than its buffer",
        "A fault of SGLang 0.5.15: use another attention-backend, or capture graphs for more requests than ever run "
        "(cuda-graph-max-bs above max-running-requests or the load).",
    ),
    cause(
        r"module 'flashinfer\.sampling' has no attribute '(\w{1,60})'",
        _EXIT,
        "SGLang needs FlashInfer ({1}) to sample under speculation",
        "Install the FlashInfer that this SGLang asks for; without it speculation works at temperature 0 only.",
    ),
    cause(
        rf"Scheduler hit an exception: Traceback{_LAST_LINE}",
        _EXIT,
        "SGLang's scheduler stopped at an error: {1}",
        "This is a fault of SGLang with these settings; try others, or another version.",
    ),
    cause(
        r"Rank (\d{1,5}) scheduler died during initialization \(exit code: (-?\d{1,5})\)",
        _EXIT,
        _died,
        "See the log's end.",
    ),
    cause(
        r"Subprocess (\w{1,60}) \(pid=\d{1,10}\) crashed with exit code (-?\d{1,5})",
        _EXIT,
        "{1} crashed with exit code {2}",
        "See the log's end.",
    ),
    cause(
        r"Fatal Python error: ([^\n]{1,200})",
        _EXIT,
        "SGLang crashed: {1}",
        "See the log's end.",
    ),
    cause(
        rf"^Traceback \(most recent call last\):{_LAST_LINE}",
        _EXIT,
        "SGLang stopped at an error: {1}",
        "See the log's end.",
    ),
)
"""In order: the first that is found names the cause, so the special comes before the general."""
