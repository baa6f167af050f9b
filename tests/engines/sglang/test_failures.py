from __future__ import annotations

import pytest

from spectune.domain.errors import EngineFailure, FailureKind
from spectune.engines.sglang import SGLang
from spectune.engines.sglang.failure_causes import CAUSES
from tests.engines.sglang.recorded import FAILED, failed, stamped, started

K = FailureKind
ENGINE = SGLang()
TRACE = 'Traceback (most recent call last):\n  File "/opt/site/sglang/srt/x.py", line 4, in x\n'
HOOK = TRACE + '  File "/opt/site/sglang/srt/arg_groups/speculative_hook.py", line 440, in y\n    if a > b:\n'
SIGQUIT = stamped("Received sigquit from a child process. It usually means the child failed.")
USAGE = "usage: launch_server.py [-h] --model-path MODEL_PATH\nlaunch_server.py: error: "


def hit(text: str) -> str:
    return stamped("Scheduler hit an exception: " + TRACE + text + "\n") + SIGQUIT


RECORDED = {
    "import-at-draft-capture": (K.MISSING_LIBRARY, "module deep_gemm"),
    "no-processor": (K.MODEL_BROKEN, "/models/q35 has no image processor"),
    "full-batch-mask": (K.EXITED, "the mask of a full batch is larger than its buffer"),
    "no-flashinfer-sampling": (K.EXITED, "SGLang needs FlashInfer (top_k_renorm_probs)"),
}
CONSTRUCTED: tuple[tuple[str, str, FailureKind, str], ...] = (
    (
        "port",
        stamped(
            "ERROR: [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): address already in use"
        ),
        K.PORT_TAKEN,
        "port 30000 on 127.0.0.1",
    ),
    (
        "inner port",
        TRACE + "ValueError: nccl_port at 34567 is not available in 30 seconds. nccl_port at 34567 is not available\n",
        K.PORT_TAKEN,
        "34567 (nccl_port)",
    ),
    ("unknown", USAGE + "unrecognized arguments: --speculative-num-step 3\n", K.BAD_ARGUMENT, "--speculative-num-step"),
    (
        "ambiguous",
        USAGE + "ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode, --cuda-graph-max-bs-p\n",
        K.BAD_ARGUMENT,
        "--cuda-graph-max-bs is the beginning of several",
    ),
    (
        "choice",
        USAGE + "argument --attention-backend: invalid choice: 'fa9' (choose from 'triton', 'fa3')\n",
        K.BAD_ARGUMENT,
        "--attention-backend: invalid choice: 'fa9'",
    ),
    (
        "alias",
        USAGE + "argument --tensor-parallel-size/--tp-size: invalid int value: 'x'\n",
        K.BAD_ARGUMENT,
        "--tensor-parallel-size: invalid int value",
    ),
    ("algorithm", TRACE + "ValueError: Unknown speculative algorithm name: EAGEL\n", K.BAD_ARGUMENT, "EAGEL"),
    (
        "high port",
        TRACE + "ValueError: SGLANG_GRPC_PORT (70000) must be between 1 and 65535\n",
        K.BAD_ARGUMENT,
        "too high",
    ),
    (
        "adaptive",
        TRACE + "ValueError: --speculative-num-steps=2 is not in the adaptive config candidate_steps [1, 3, 7]. Pass "
        "one of those values.\n",
        K.BAD_ARGUMENT,
        "not among those of the schedule",
    ),
    (
        "combination",
        TRACE + "ValueError: trtllm_mha backend only supports topk = 1 for speculative decoding.\n",
        K.BAD_ARGUMENT,
        "trtllm_mha backend only supports topk",
    ),
    (
        "no draft model",
        TRACE + "ValueError: DFLASH speculative decoding requires setting --speculative-draft-model-path.\n",
        K.DRAFT_MODEL,
        "needs a draft model",
    ),
    (
        "no topk",
        HOOK + "TypeError: '>' not supported between instances of 'NoneType' and 'int'\n",
        K.BAD_ARGUMENT,
        "steps without topk",
    ),
    (
        "weights fill the memory",
        hit(
            "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.5. Raise "
            "--mem-fraction-static above 0.812 (minimum viable = 1 - available/pre = 0.8020). If using speculative "
            "decoding, draft weights are now counted."
        ),
        K.OUT_OF_MEMORY,
        "no room for a KV cache at mem-fraction-static 0.5",
    ),
    (
        "states",
        hit(
            "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed "
            "max_mamba_cache_size=-3"
        ),
        K.KV_TOO_SMALL,
        "recurrent states: Computed max_mamba_cache_size=-3",
    ),
    (
        "few states",
        hit("ValueError: Hybrid (mamba/linear-attention) state cache is too small to serve any requests. max_mamba=1"),
        K.KV_TOO_SMALL,
        "too few for a single request",
    ),
    (
        "no KV",
        hit(
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
            "mem_fraction_static=0.6"
        ),
        K.KV_TOO_SMALL,
        "nothing is left for the KV cache",
    ),
    (
        "capture out of memory",
        hit(
            "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 512.00 MiB.\nPossible "
            "solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)"
        ),
        K.OUT_OF_MEMORY,
        "while graphs were captured",
    ),
    (
        "capture",
        hit("Exception: Capture cuda graph failed: operation not permitted when stream is capturing"),
        K.EXITED,
        "graphs could not be captured: operation not permitted",
    ),
    (
        "out of memory",
        hit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of"),
        K.OUT_OF_MEMORY,
        "could not allocate 2.00 GiB",
    ),
    ("driver", hit("RuntimeError: CUDA error: out of memory"), K.OUT_OF_MEMORY, "CUDA error: out of memory"),
    (
        "decode",
        hit("RuntimeError: Decode out of memory. Try to lower your batch size.\nTry to allocate 48 tokens."),
        K.KV_TOO_SMALL,
        "Decode out of memory",
    ),
    (
        "slots",
        hit("RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running`."),
        K.KV_TOO_SMALL,
        "more requests ran than there are slots",
    ),
    (
        "nccl",
        hit("torch.distributed.DistBackendError: NCCL error in: /pytorch/ProcessGroupNCCL.cpp:3690, unhandled cuda er"),
        K.EXITED,
        "could not talk to each other: NCCL error in",
    ),
    (
        "ngram compiler",
        "result.h:13:22: error: 'size_t' has not been declared\nninja: build stopped: subcommand failed.\n"
        + hit("RuntimeError: Error building extension"),
        K.MISSING_LIBRARY,
        "NGRAM's C++ part",
    ),
    ("import", hit("ImportError: cannot import name 'a' from 'b'"), K.MISSING_LIBRARY, "cannot import name 'a'"),
    (
        "shared library",
        TRACE + "OSError: libnvrtc.so.13: cannot open shared object file: No such file or directory\n",
        K.MISSING_LIBRARY,
        "libnvrtc.so.13",
    ),
    (
        "kernels",
        hit("torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device"),
        K.MISSING_LIBRARY,
        "not built for this GPU",
    ),
    (
        "tokenizer",
        TRACE + "OSError: Can't load tokenizer for '/models/q'. If you were trying to load it from\n",
        K.MODEL_BROKEN,
        "/models/q has no tokenizer",
    ),
    (
        "config",
        TRACE + "OSError: /models/q does not appear to have a file named config.json. Checkout\n",
        K.MODEL_BROKEN,
        "/models/q lacks the file config.json",
    ),
    (
        "weights",
        hit("RuntimeError: Cannot find any model weights with `/models/q`"),
        K.MODEL_BROKEN,
        "no weights in /models/q",
    ),
    (
        "model missing",
        TRACE + "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
        "'namespace/repo_name': '/models/gone'. Use `repo_type` argument if needed.\n",
        K.MODEL_MISSING,
        "/models/gone",
    ),
    (
        "architecture",
        hit("ValueError: Model architectures ['NewForCausalLM'] are not supported for now."),
        K.MODEL_BROKEN,
        "['NewForCausalLM']",
    ),
    (
        "watchdog",
        stamped("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)") + SIGQUIT,
        K.EXITED,
        "hung for 300 s",
    ),
    (
        "warm-up",
        stamped("Initialization failed. warmup error: timed out"),
        K.NEVER_READY,
        "first request after loading",
    ),
    (
        "hang",
        stamped("Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic"),
        K.NEVER_READY,
        "for 20 s: it hangs",
    ),
    (
        "killed while starting",
        TRACE + "RuntimeError: Rank 1 scheduler died during initialization (exit code: -9). If exit code is -9 "
        "(SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check.\n",
        K.OUT_OF_MEMORY,
        "rank 1 died while starting (exit code -9, killed by the kernel",
    ),
    (
        "died while starting",
        TRACE + "RuntimeError: Rank 0 scheduler died during initialization (exit code: 1). If exit code is -9\n",
        K.EXITED,
        "rank 0 died while starting (exit code 1)",
    ),
    (
        "killed while serving",
        stamped("Subprocess scheduler_0 (pid=77) crashed with exit code -9. Triggering SIGQUIT for cleanup..."),
        K.OUT_OF_MEMORY,
        "scheduler_0 was killed",
    ),
    (
        "crashed while serving",
        stamped("Subprocess detokenizer (pid=77) crashed with exit code 1. Triggering SIGQUIT for cleanup..."),
        K.EXITED,
        "detokenizer crashed with exit code 1",
    ),
    (
        "illegal access",
        hit("torch.AcceleratorError: CUDA error: an illegal memory access was encountered"),
        K.EXITED,
        "illegal memory access",
    ),
    ("scheduler", hit("KeyError: 'nope'"), K.EXITED, "scheduler stopped at an error: KeyError: 'nope'"),
    ("crash", "Fatal Python error: Segmentation fault\n\nThread 0x7f\n", K.EXITED, "Segmentation fault"),
    ("anything", TRACE + "RuntimeError: odd\n", K.EXITED, "stopped at an error: RuntimeError: odd"),
)


def diagnosed(log: str) -> EngineFailure:
    return ENGINE.diagnose(EngineFailure(K.EXITED, "exited with code -9 after 3.0 s", "", log))


def test_every_recording_is_covered() -> None:
    assert tuple(sorted(RECORDED)) == FAILED


@pytest.mark.parametrize("name", FAILED)
def test_recorded_failures(name: str) -> None:
    failure, (kind, words) = diagnosed(failed(name)), RECORDED[name]
    assert failure.kind is kind
    assert words in failure.message
    assert failure.advice
    assert failure.log_tail == failed(name)


@pytest.mark.parametrize(
    ("log", "kind", "words"), [row[1:] for row in CONSTRUCTED], ids=[row[0] for row in CONSTRUCTED]
)
def test_failures(log: str, kind: FailureKind, words: str) -> None:
    before = failed("import-at-draft-capture").split("Scheduler hit")[0]
    failure = diagnosed(before.rpartition("\n")[0] + "\n" + log)
    assert failure.kind is kind
    assert words in failure.message
    assert failure.advice


def test_every_cause_has_a_failure() -> None:
    logs = [row[1] for row in CONSTRUCTED] + [failed(name) for name in FAILED]
    named = {next((cause for cause in CAUSES if cause.groups(log) is not None), None) for log in logs}
    assert [cause.pattern.pattern for cause in CAUSES if cause not in named] == []


def test_unknown_flags_get_their_new_name() -> None:
    for flag, near in (("--cuda-graph-max-bs 8", "cuda-graph-max-bs-decode"), ("--tp-sise=2", "tp-size")):
        assert near in diagnosed(f"{USAGE}unrecognized arguments: {flag}\n").advice


@pytest.mark.parametrize("name", ["mtp1", "none", "tp2-122b-mtp3-simulated"])
def test_a_clean_stop_is_no_cause(name: str) -> None:
    """SGLang ends itself with SIGKILL then, after its children "crash" with -15."""
    failure = EngineFailure(K.EXITED, "exited with code -9", "", started(name).log)
    assert ENGINE.diagnose(failure) is failure
