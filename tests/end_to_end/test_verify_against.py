"""`spectune verify --against` on real llama-servers: alike, sampling otherwise, another model, refusing to sample."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.end_to_end.conftest import Desk
from tests.support.started import llama

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

Serve = Callable[..., str]
Statuses = dict[str, str]
FEW = ("--probes", "8", "--sampled", "24")


@pytest.fixture(scope="module")
def serve(
    llama_server: Path, tiny_pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Serve]:
    """Starts a server on one of the tiny models, once for the same flags, and returns its URL."""
    urls: dict[tuple[int, tuple[str, ...]], str] = {}
    with ExitStack() as started:

        def start(*flags: str, model: int = 0) -> str:
            if (model, flags) not in urls:
                command = [str(llama_server), "-m", str(tiny_pair[model]), "-c", "2048", "-np", "2", "-t", "1", *flags]
                log = tmp_path_factory.mktemp("server") / "server.log"
                urls[model, flags] = started.enter_context(llama(command, log))
            return urls[model, flags]

        yield start


@contextmanager
def refusing(url: str) -> Iterator[str]:
    """A server in front of another that turns down whoever sends a temperature above 0, as some do."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._pass_on(httpx.get(url + self.path, trust_env=False))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if body.get("temperature"):
                self._pass_on(httpx.Response(400, json={"error": {"message": "temperature is not supported"}}))
            else:
                self._pass_on(httpx.post(url + self.path, json=body, trust_env=False, timeout=60))

        def _pass_on(self, answer: httpx.Response) -> None:
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def verify(desk: Desk, ours: str, other: str, *words: str) -> tuple[int, Statuses, Statuses]:
    """Exit code, statuses and what was seen, by check."""
    done = desk.call("verify", ours, "--against", other, *FEW, *words, "--json")
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    return (
        done.returncode,
        {finding["check"]: finding["status"] for finding in found},
        {finding["check"]: finding["seen"] for finding in found},
    )


ALIKE = dict.fromkeys(("generation", "answers", "answers-in-company", "answers-sampled"), "ok")


def test_a_server_that_speculates_samples_as_one_that_does_not(
    desk: Desk, serve: Serve, tiny_pair: tuple[Path, Path]
) -> None:
    drafting = serve("-md", str(tiny_pair[1]), "--spec-type", "draft-simple")
    code, statuses, seen = verify(desk, drafting, serve())
    assert (code, statuses) == (0, ALIKE), seen
    assert "192 answers to 8 prompts" in seen["answers-sampled"]


def test_other_sampling_defaults_are_found_by_sampled_answers_alone(desk: Desk, serve: Serve) -> None:
    sharp = serve("--temp", "0.1")
    code, statuses, seen = verify(desk, sharp, serve())
    assert (code, statuses) == (3, ALIKE | {"answers-sampled": "violated"}), seen
    assert "at the baseline" in seen["answers-sampled"]
    # Where the request says how to sample, defaults don't count.
    assert verify(desk, sharp, serve(), "--temperature", "0.8")[1] == ALIKE
    # Greedy answers tell nothing of it.
    without = verify(desk, sharp, serve(), "--sampled", "0")
    assert without[:2] == (0, {name: "ok" for name in ALIKE if name != "answers-sampled"})


def test_another_model_is_found_though_every_word_is_rare(desk: Desk, serve: Serve) -> None:
    code, statuses, seen = verify(desk, serve(model=1), serve())
    assert code == 3
    assert (statuses["answers"], statuses["answers-sampled"]) == ("violated", "violated"), seen


def test_a_server_that_refuses_to_sample_is_unknown(desk: Desk, serve: Serve) -> None:
    with refusing(serve()) as strict:
        code, statuses, seen = verify(desk, strict, serve(), "--temperature", "0.8")
        assert (code, statuses) == (1, ALIKE | {"answers-sampled": "unknown"}), seen
        assert "192 of 192 failed here: http-error" in seen["answers-sampled"]
        assert "temperature is not supported" in seen["answers-sampled"]
