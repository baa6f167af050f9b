"""`spectune bench` against a small server in this process; tests/end_to_end does the same with a real engine."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme
from typer.testing import CliRunner, Result

from spectune.cli.bench_files import read_run, write_run
from spectune.cli.main import app
from spectune.domain.errors import HostError, InputError, SpectuneError
from spectune.domain.workload import Sampling
from spectune.report.bench_file import dump_run
from tests.support.bench_runs import cell, run

TOKENS, STEP_S = 9, 0.002


class Served:
    """A chat server that sends nine tokens an answer, and remembers what it was asked."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.bodies: list[dict[str, object]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.delay_s = 0.0
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                found = self.path == "/v1/models"
                body = json.dumps({"data": [{"id": "tiny"}]} if found else {}).encode()
                self.send_response(200 if found else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                served.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                served.headers.append(dict(self.headers.items()))
                served.paths.append(self.path)
                time.sleep(served.delay_s)
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                for number in range(TOKENS):
                    choice = {"index": 0, "delta": {"content": f"{number} "}, "text": f"{number} "}
                    self.wfile.write(f"data: {json.dumps({'choices': [choice]})}\n\n".encode())
                    time.sleep(STEP_S)
                usage = {"prompt_tokens": 5, "completion_tokens": TOKENS, "total_tokens": 5 + TOKENS}
                last = {"choices": [{"index": 0, "delta": {}, "text": "", "finish_reason": "stop"}], "usage": usage}
                self.wfile.write(f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n".encode())
                self.close_connection = True

            def handle(self) -> None:
                try:
                    super().handle()
                except (ConnectionError, ValueError):  # the load generator cancels what is in flight at the end
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        if tls:
            # The handshake is left to the thread of the connection.
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"http{'s' * bool(tls)}://127.0.0.1:{self.server.server_port}"


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Served]:
    made = Served(tls)
    thread = threading.Thread(target=made.server.serve_forever, args=(0.05,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as made:
        yield made


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, ["bench", *words], env={"SPECTUNE_API_KEY": ""})


def measure(served: Served, *words: str) -> Result:
    """A short one."""
    found = invoke(served.url, "--seconds", "1", "--precision", "1", *words)
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found


def test_levels_rates_and_what_is_sent(served: Served, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    found = measure(
        served, "--concurrency", "2", "--rates", "20", "--arrival", "constant", "--temperature", "0.3", "--ignore-eos",
        "--max-tokens", "9", "--slo", "ttft<5,tpot<5", "--header", "X-Tenant: load-test", "--save", str(path),
        "--records",
    )  # fmt: skip
    assert "2 users, temperature 0.3, fixed length" in found.stderr
    assert "goodput" in found.stdout
    saved = read_run(path)
    assert [m.cell.level.label for m in saved.cells] == ["2 users", "20 req/s constant"]
    assert all(m.cell.sampling == Sampling(0.3, ignore_eos=True) for m in saved.cells)
    assert saved.records.keys() == {m.cell.key for m in saved.cells}
    assert (saved.model, saved.engine, saved.workload.name) == ("tiny", "", "builtin")
    body = served.bodies[0]
    assert (body["temperature"], body["ignore_eos"], body["model"]) == (0.3, True, "tiny")
    assert max(int(str(body["max_tokens"])) for body in served.bodies) == 9  # warming up may ask for less
    assert all(headers["X-Tenant"] == "load-test" for headers in served.headers)
    # A line a level while it ran.
    assert found.stderr.count("tok/s per user") == 2


def test_completions(served: Served) -> None:
    found = measure(served, "--concurrency", "1", "--api", "completions", "--json")
    assert json.loads(found.stdout)["api"] == "completions"
    assert set(served.paths) == {"/v1/completions"}
    assert "prompt" in served.bodies[0]


@pytest.mark.parametrize(
    ("form", "begins"), [("csv", "started_at_utc,"), ("markdown", "## Load test of tiny"), ("vllm", '{"date"')]
)
def test_forms(served: Served, form: str, begins: str) -> None:
    assert measure(served, "--concurrency", "1", "--format", form).stdout.startswith(begins)


def test_workloads_are_compared(served: Served) -> None:
    found = measure(served, "--concurrency", "1", "--compare-workloads")
    assert "flattering test (repetitive prompts" in found.stdout
    assert "flattering test: 1 user, temperature 0, fixed length" in found.stderr
    texts = [str(body["messages"]) for body in served.bodies]
    flattering = [text for text in texts if "over and over" in text]
    assert len(flattering) > len(set(flattering))
    plain = [text for text in texts if "over and over" not in text]
    assert len(plain) == len(set(plain))


def test_a_server_that_dies_leaves_what_was_measured(served: Served, tmp_path: Path) -> None:
    path = tmp_path / "run.json"

    def end_after_the_first_level() -> None:
        while not path.exists():
            time.sleep(0.01)
        served.server.server_close()

    end = threading.Thread(target=end_after_the_first_level, daemon=True)
    end.start()
    found = invoke(
        served.url, "--seconds", "1", "--concurrency", "1,2,3,4", "--precision", "0.001", "--save", str(path)
    )
    end.join(60)
    assert isinstance(found.exception, SpectuneError)
    assert 1 <= len(read_run(path).cells) < 4


def test_a_certificate_that_cannot_be_checked_is_refused_or_taken() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with serving(context) as served:
        error = invoke(served.url).exception
        assert isinstance(error, HostError)
        assert "--insecure" in error.advice
        assert measure(served, "--concurrency", "1", "--insecure").exit_code == 0
    assert served.bodies


def test_pushing_to_nowhere_fails_after_the_result(served: Served) -> None:
    found = invoke(
        served.url, "--seconds", "1", "--precision", "1", "--concurrency", "1", "--push-gateway", "127.0.0.1:1"
    )
    assert "per user" in found.stdout
    assert isinstance(found.exception, HostError)
    assert "cannot push" in found.exception.message


WRONG = {
    "no server": (["http://127.0.0.1:1"], "nothing answers"),
    "no URL": (["gpu7:8000"], "not the URL"),
    "no port": (["http://127.0.0.1:65536"], "not the URL"),
    "wrong level": (["http://x", "--concurrency", "many"], "'many'"),
    "two forms": (["http://x", "--json", "--format", "csv"], "contradict"),
    "flattery as csv": (["http://x", "--compare-workloads", "--format", "csv"], "no form csv"),
    "flattery of a trace": (["http://x", "--compare-workloads", "--arrival", "trace"], "no recorded times"),
    "no place to save": (["http://x", "--save", "/nowhere/run.json"], "no place for a file"),
    "no workload": (["http://x", "--prompts", "buildin"], "--prompts: no file"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_told_before_anything_is_measured(case: str) -> None:
    words, said = WRONG[case]
    error = invoke(*words).exception
    assert isinstance(error, SpectuneError)
    assert said in error.message
    assert error.advice


def test_options_may_stand_before_the_url(served: Served) -> None:
    found = invoke("--concurrency", "1", "--seconds", "1", "--precision", "1", served.url)
    assert found.exit_code == 0


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_of_the_measuring_and_names_the_comparison(flag: str) -> None:
    text = invoke(flag).output
    assert "--compare-workloads" in text
    assert "spectune bench compare A.json B.json" in text
    assert "Usage: spectune bench" in " ".join(text.replace("root", "spectune").split())
    assert "--despite" in invoke("compare", flag).output


def test_two_runs_are_compared(tmp_path: Path) -> None:
    one, other = tmp_path / "a.json", tmp_path / "b.json"
    write_run(run(cell()), one)
    write_run(run(cell(70.0)), other)
    found = invoke("compare", str(one), str(other))
    assert found.exit_code == 0
    assert "faster" in found.stdout
    document = json.loads(invoke("compare", str(one), str(other), "--json").stdout)
    assert document["levels"][0]["differences"][0]["word"] == "faster"
    wide = json.loads(invoke("compare", str(one), str(other), "--json", "--noise", "0.5").stdout)
    assert wide["levels"][0]["differences"][0]["word"] == "no difference shown"


def test_an_obstacle_can_be_overlooked(tmp_path: Path) -> None:
    one, other = tmp_path / "a.json", tmp_path / "b.json"
    write_run(run(cell()), one)
    write_run(run(cell(70.0), url="http://gpu7"), other)
    assert "not comparable: other machine" in invoke("compare", str(one), str(other)).stdout
    assert "overlooked: other machine" in invoke("compare", str(one), str(other), "--despite", "machine").stdout


def test_a_run_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_run(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot read"):
        read_run(tmp_path)


def test_writing_leaves_nothing_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("old")
    write_run(run(), path)
    assert path.read_text() == dump_run(run())
    with pytest.raises(HostError, match="cannot write"):
        write_run(run(), tmp_path / "none" / "run.json")
    assert list(tmp_path.iterdir()) == [path]
