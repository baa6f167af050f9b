"""The adapter against a real llama-server: what is asked is what is read back."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Counters, Evidence, Launch, ListenerOwner, Page, Seen, Service
from spectune.domain.errors import EngineFailure, FailureKind
from spectune.domain.knobs import Settings
from spectune.engines.llamacpp import LlamaCpp
from spectune.engines.llamacpp.flags import load, parse_help
from tests.support.ports import fresh_port

pytestmark = pytest.mark.engine

ENGINE = LlamaCpp()
ARGS: Settings = {"ctx-size": 4096, "parallel": 2, "threads": 1}
READY_S = 60.0
REQUESTS, TOKENS = 2, 60


@dataclass(frozen=True)
class Tiny:
    """A tiny model on a real server."""

    binary: Path
    target: Path
    draft: Path

    def service(self, args: Settings = ARGS) -> Service:
        port = fresh_port()
        return Service("llama.cpp", str(self.binary), str(self.target), args, {}, "127.0.0.1", port, "tiny")


@pytest.fixture
def tiny(llama_server: Path, tiny_pair: tuple[Path, Path]) -> Tiny:
    return Tiny(llama_server, *tiny_pair)


@contextmanager
def process(launch: Launch, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (
        log.open("wb") as output,
        subprocess.Popen(
            launch.argv, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **launch.env}
        ) as server,
    ):
        try:
            yield server
        finally:
            server.terminate()
            server.wait(10)


def get(url: str, body: object = None) -> Page:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return Page(answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Page(error.code, error.read().decode())
    except OSError:
        return Page(0, "")


@contextmanager
def serving(launch: Launch, log: Path) -> Iterator[None]:
    """A server from when it is ready."""
    with process(launch, log) as server:
        deadline = time.monotonic() + READY_S
        while get(launch.url + launch.ready_path).status != 200:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield


def ask(launch: Launch, requests: int) -> None:
    for number in range(requests):
        body = {
            "messages": [{"role": "user", "content": f"{number}: one two three one two three one two three"}],
            "max_tokens": TOKENS,
            "temperature": 0,
            "ignore_eos": True,
        }
        assert get(f"{launch.url}/v1/chat/completions", body).status == 200


def observe(launch: Launch, log: Path, requests: int = REQUESTS) -> Evidence:
    """Starts a server, asks it, and ends it."""
    with serving(launch, log):
        ask(launch, requests)
        pages = {path: get(launch.url + path) for path in launch.probe_paths}
        return Evidence(log.read_text("utf-8"), pages, ListenerOwner.OURS)


@pytest.fixture
def seen_of(tiny: Tiny, tmp_path: Path) -> Callable[..., Seen]:
    def see(candidate: Candidate, args: Settings = ARGS) -> Seen:
        return ENGINE.read(observe(ENGINE.launch(tiny.service(args), candidate), tmp_path / "server.log"))

    return see


def test_the_recorded_flags_are_this_servers(llama_server: Path) -> None:
    told = subprocess.run([llama_server, "--help"], capture_output=True, text=True, check=True).stdout
    assert parse_help(told) == load()


def candidates(tiny: Tiny) -> dict[str, Candidate]:
    return {
        "none": Candidate(),
        "draft": Candidate(
            Speculation(
                Method.DRAFT, 6, draft_model=str(tiny.draft), settings={"spec-draft-n-min": 2, "spec-draft-p-min": 0.25}
            )
        ),
        "ngram": Candidate(Speculation(Method.NGRAM, 8, settings={"spec-ngram-simple-size-n": 2})),
        "pool": Candidate(
            Speculation(Method.NGRAM_POOL, 8, settings={"spec-ngram-mod-n-match": 16, "spec-ngram-mod-n-min": 4})
        ),
        "knobs": Candidate(
            knobs={
                "ctx-size": 2048,
                "parallel": 4,
                "kv-unified": True,
                "flash-attn": "on",
                "cache-type-k": "q8_0",
                "cache-type-v": "q8_0",
                "batch-size": 256,
                "ubatch-size": 64,
                "threads-batch": 2,
                "cache-ram": 0,
            }
        ),
    }


@pytest.mark.parametrize("name", ["none", "draft", "ngram", "pool", "knobs"])
def test_what_is_asked_is_what_is_read_back(tiny: Tiny, seen_of: Callable[..., Seen], name: str) -> None:
    candidate = candidates(tiny)[name]
    asked = candidate.speculation
    seen = seen_of(candidate)
    assert (seen.speculating, seen.method, seen.depth) == (asked.method is not Method.NONE, asked.method, asked.depth)
    wanted = {**ARGS, **asked.settings, **candidate.knobs}
    assert {setting: seen.settings.get(setting) for setting in wanted} == wanted
    assert seen.model == str(tiny.target)
    assert seen.model_id == "tiny"
    assert seen.warnings == ()
    assert seen.invalid_output is None
    assert seen.counters is not None
    assert seen.counters.output_tokens == REQUESTS * TOKENS
    assert seen.capacity.kv_tokens == wanted["ctx-size"]
    assert seen.capacity.max_running == wanted["parallel"]


def test_simulated_acceptance_is_counted_and_called_invalid(tiny: Tiny, seen_of: Callable[..., Seen]) -> None:
    candidate = Candidate(Speculation(Method.DRAFT, 3, draft_model=str(tiny.draft)))
    seen = seen_of(candidate, {**ARGS, "spec-synth-rates": "1,1,1,0"})
    assert seen.invalid_output is not None
    counters = seen.counters
    assert isinstance(counters, Counters)
    assert counters.drafted == counters.accepted
    assert len(counters.accepted_per_position) == 3


@pytest.mark.parametrize(
    "extra",
    [
        ("--model-draft", "{draft}"),
        ("--spec-type", "draft-simple"),
        ("--spec-type", "draft-eagle3", "--model-draft", "{draft}"),
    ],
    ids=" ".join,
)
def test_speculation_that_silently_does_not_run_is_seen(tiny: Tiny, tmp_path: Path, extra: tuple[str, ...]) -> None:
    plain = ENGINE.launch(tiny.service(), Candidate())
    argv = (*plain.argv, *(word.format(draft=tiny.draft) for word in extra))
    launch = Launch(argv, plain.env, plain.url, plain.ready_path, plain.probe_paths, None, "tiny")
    seen = ENGINE.read(observe(launch, tmp_path / "server.log", requests=0))
    assert (seen.speculating, seen.method, seen.depth) == (False, Method.NONE, 0)
    assert seen.warnings


def test_the_log_does_not_grow_with_tokens(tiny: Tiny, tmp_path: Path) -> None:
    launch, log = ENGINE.launch(tiny.service(), Candidate(Speculation(Method.NGRAM, 3))), tmp_path / "server.log"
    with serving(launch, log):
        before = len(log.read_text("utf-8").splitlines())
        ask(launch, REQUESTS)
        after = len(log.read_text("utf-8").splitlines())
    assert after - before < REQUESTS * TOKENS


Break = Callable[[Tiny, Path], Launch]


def _with(*extra: str) -> Break:
    def make(tiny: Tiny, folder: Path) -> Launch:
        plain = ENGINE.launch(tiny.service(), Candidate())
        argv = (*plain.argv, *extra)
        return Launch(argv, plain.env, plain.url, plain.ready_path, plain.probe_paths, None, "tiny")

    return make


def _missing_model(tiny: Tiny, folder: Path) -> Launch:
    return ENGINE.launch(Tiny(tiny.binary, folder / "none.gguf", tiny.draft).service(), Candidate())


def _cut_model(tiny: Tiny, folder: Path) -> Launch:
    cut = folder / "cut.gguf"
    cut.write_bytes(tiny.target.read_bytes()[:3_000_000])
    return ENGINE.launch(Tiny(tiny.binary, cut, tiny.draft).service(), Candidate())


def _missing_draft(tiny: Tiny, folder: Path) -> Launch:
    draft = Speculation(Method.DRAFT, 3, draft_model=str(folder / "none.gguf"))
    return ENGINE.launch(tiny.service(), Candidate(draft))


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (_with("--nope"), FailureKind.BAD_ARGUMENT, "--nope"),
        (_with("--draft-max", "3"), FailureKind.BAD_ARGUMENT, "removed --draft-max"),
        (_with("--spec-type", "ngram"), FailureKind.BAD_ARGUMENT, "'ngram'"),
        (_with("--threads", "many"), FailureKind.BAD_ARGUMENT, "--threads"),
        (_with("--spec-type", "draft-mtp"), FailureKind.DRAFT_MODEL, "MTP"),
        (_with("--spec-synth-len", "2"), FailureKind.BAD_ARGUMENT, "simulated"),
        (_missing_model, FailureKind.MODEL_MISSING, "none.gguf"),
        (_cut_model, FailureKind.MODEL_BROKEN, "cut.gguf"),
        (_missing_draft, FailureKind.DRAFT_MODEL, "none.gguf"),
    ],
    ids=[
        "unknown",
        "removed",
        "type",
        "value",
        "mtp",
        "synth",
        "model missing",
        "model cut",
        "draft missing",
    ],
)
def test_failures_are_named(tiny: Tiny, tmp_path: Path, make: Break, kind: FailureKind, words: str) -> None:
    log = tmp_path / "server.log"
    with process(make(tiny, tmp_path), log) as server:
        assert server.wait(READY_S) == 1
    failure = ENGINE.diagnose(EngineFailure(FailureKind.EXITED, "exited with code 1", "", log.read_text("utf-8")))
    assert failure.kind is kind
    assert words in failure.message


def test_a_taken_port_is_named(tiny: Tiny, tmp_path: Path) -> None:
    service = tiny.service()
    log = tmp_path / "server.log"
    with socket.socket() as other:
        other.bind((service.host, service.port))
        other.listen()
        with process(ENGINE.launch(service, Candidate()), log) as server:
            assert server.wait(READY_S) == 1
    failure = ENGINE.diagnose(EngineFailure(FailureKind.EXITED, "exited with code 1", "", log.read_text("utf-8")))
    assert failure.kind is FailureKind.PORT_TAKEN
    assert str(service.port) in failure.message
