from __future__ import annotations

import pytest

from spectune.domain.errors import EngineFailure, FailureKind
from spectune.engines.llamacpp import LlamaCpp
from tests.engines.llamacpp.recorded import FAILED, failed

K = FailureKind
RECORDED: tuple[tuple[str, FailureKind, str, str], ...] = (
    ("port", K.PORT_TAKEN, "port 18741 on 127.0.0.1", "service.port"),
    ("bad-host", K.PORT_TAKEN, "203.0.113.7", ""),
    ("no-model", K.MODEL_MISSING, "/nonexistent.gguf can't be opened: No such file or directory", "service.model"),
    ("trunc-head", K.MODEL_BROKEN, "/models/trunc-head.gguf can't be read: failed to read key-value pairs", "whole"),
    ("trunc-mid", K.MODEL_BROKEN, "data is not within the file bounds", "whole"),
    ("not-gguf", K.MODEL_BROKEN, "invalid magic", "whole"),
    ("empty", K.MODEL_BROKEN, "failed to read magic", "whole"),
    ("dir-model", K.MODEL_BROKEN, "/models can't be read", "whole"),
    ("ctx-huge", K.OUT_OF_MEMORY, "could not allocate 921.6 GB (CPU)", "ctx-size"),
    ("no-draft", K.DRAFT_MODEL, "draft model /nonexistent.gguf can't be opened: No such file", "draft_model"),
    ("draft-trunc", K.DRAFT_MODEL, "draft model /models/trunc-head.gguf can't be loaded", "whole"),
    ("mtp", K.DRAFT_MODEL, "MTP layers", "another method"),
    ("synth-draft", K.DRAFT_MODEL, "speculation did not come up: draft model is not eagle3", "vocabulary"),
    ("bad-arg", K.BAD_ARGUMENT, "no argument --nope", ""),
    ("bad-value", K.BAD_ARGUMENT, "value of --ctx-size: not a whole number", "service.args"),
    ("bad-range", K.BAD_ARGUMENT, "--spec-ngram-simple-size-n: ngram size N must be between", ""),
    ("bad-choice", K.BAD_ARGUMENT, "-ctk (--cache-type-k): Unsupported cache type: q9_9", ""),
    ("bad-env", K.BAD_ARGUMENT, "LLAMA_ARG_CTX_SIZE: not a whole number", ""),
    ("bad-type", K.BAD_ARGUMENT, "no speculation type 'ngram'", "ngram-simple"),
    ("removed", K.BAD_ARGUMENT, "removed --draft-max", "--spec-draft-n-max"),
    ("vquant", K.BAD_ARGUMENT, "needs flash attention", "flash-attn"),
    ("synth-none", K.BAD_ARGUMENT, "needs a speculation method", "spec-type"),
    ("synth-count", K.BAD_ARGUMENT, "must contain 48 values, got 2", "spec-synth-rates"),
)


@pytest.mark.parametrize(("name", "kind", "message", "advice"), RECORDED, ids=[case[0] for case in RECORDED])
def test_recorded_failures(name: str, kind: FailureKind, message: str, advice: str) -> None:
    found = LlamaCpp().diagnose(EngineFailure(K.EXITED, "llama-server exited with code 1", "", failed(name)))
    assert found.kind is kind
    assert message in found.message
    assert advice in found.advice
    assert found.log_tail == failed(name)


def test_every_recorded_failure_is_expected() -> None:
    assert sorted(case[0] for case in RECORDED) == list(FAILED)


@pytest.mark.parametrize(
    ("message", "tail", "kind", "words"),
    [
        ("was killed by SIGKILL", "", K.OUT_OF_MEMORY, "memory ran out"),
        ("exited with code 137", "", K.OUT_OF_MEMORY, "memory ran out"),
        ("exit code: -9", "", K.OUT_OF_MEMORY, "memory ran out"),
        ("was killed by SIGILL", "", K.EXITED, "instructions that this CPU does not have"),
        ("exited with code 132", "Illegal instruction (core dumped)", K.EXITED, "instructions"),
        (
            "was killed by SIGILL",
            "0.00.160.559 I load_tensors:          AMX model buffer size =    95.34 MiB",
            K.EXITED,
            "its code for AMX (SIGILL), which GCC 12 compiles wrongly",
        ),
        ("was killed by SIGSEGV", "", K.EXITED, "SIGSEGV"),
        ("was killed by SIGABRT", "GGML_ASSERT(n > 0) failed", K.EXITED, "assertion: GGML_ASSERT(n > 0) failed"),
        (
            "exited with code 127",
            "llama-server: error while loading shared libraries: libgomp.so.1: cannot open shared object file",
            K.MISSING_LIBRARY,
            "libgomp.so.1",
        ),
        ("exited with code 1", "/lib/libm.so.6: version `GLIBC_2.38' not found", K.MISSING_LIBRARY, "GLIBC_2.38"),
        ("x", "ggml_cuda: cudaMalloc failed: out of memory", K.OUT_OF_MEMORY, "ran out of memory"),
        ("x", "llama_model_load: unknown model architecture: 'new'", K.MODEL_BROKEN, "'new'"),
        ("x", "send_error: Context size has been exceeded.", K.KV_TOO_SMALL, "KV cache was full"),
        ("was killed by SIGKILL", "Context size has been exceeded.", K.OUT_OF_MEMORY, "memory ran out"),
    ],
)
def test_other_ends(message: str, tail: str, kind: FailureKind, words: str) -> None:
    found = LlamaCpp().diagnose(EngineFailure(K.EXITED, message, "old advice", tail))
    assert found.kind is kind
    assert words in found.message
    assert found.advice


@pytest.mark.parametrize("message", ["exited with code 1 9.0 s after its start", "ended after 9 s", "code 19"])
def test_other_nines_are_no_signal(message: str) -> None:
    failure = EngineFailure(K.EXITED, message)
    assert LlamaCpp().diagnose(failure) is failure


def test_unknown_arguments_name_the_nearest() -> None:
    found = LlamaCpp().diagnose(EngineFailure(K.EXITED, "", "", "error: invalid argument: --spec-draft-nmax"))
    assert found.advice == "Did you mean 'spec-draft-n-max'?"
    found = LlamaCpp().diagnose(EngineFailure(K.EXITED, "", "", "error: invalid argument: --no-mmap"))
    assert found.advice == "Use --load-mode none."


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "line", ["failed to open GGUF file 'a' (b)\n", "error loading model: failed to read x\n", "a code -", "{1}"]
)
def test_endless_logs_are_read_in_time(line: str) -> None:
    found = LlamaCpp().diagnose(EngineFailure(K.EXITED, "", "", line * 200_000))
    assert found.kind in {K.EXITED, K.MODEL_MISSING}
