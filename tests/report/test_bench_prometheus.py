from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spectune.domain.errors import HostError
from spectune.domain.workload import Level, Sampling
from spectune.report.bench_prometheus import push_bench
from tests.support.bench_runs import BUSY, cell, run

Samples = dict[str, dict[tuple[str, str, str], float]]


class Gateway:
    """Takes pushes and keeps them."""

    def __init__(self) -> None:
        self.status = 200
        self.pushes: list[tuple[str, str, str]] = []
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                gateway.pushes.append((self.command, self.path, body))
                self.send_response(gateway.status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    made = Gateway()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.05,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def samples(body: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(body):
        for sample in family.samples:
            labels = sample.labels
            key = (labels["model"], labels["level"], labels["temperature"])
            found.setdefault(sample.name + labels.get("outcome", ""), {})[key] = sample.value
    return found


def test_a_run_is_pushed(gateway: Gateway) -> None:
    cells = (
        cell(doubts=[BUSY], goodput=1.5),
        cell(30.0, Level(4), Sampling(0.7)),
        cell(sampling=Sampling(0.0, ignore_eos=True)),
    )
    push_bench(run(*cells), gateway.url, "nightly")
    ((method, path, body),) = gateway.pushes
    assert (method, path) == ("PUT", "/metrics/job/nightly")
    found = samples(body)
    one, four, fixed = ("m", "c1", "default"), ("m", "c4", "0.7"), ("m", "c1", "0 fixed length")
    assert found["spectune_bench_per_user_tokens_per_second"] == pytest.approx({one: 50.0, four: 30.0, fixed: 50.0})
    assert found["spectune_bench_per_user_tokens_per_second_low"][one] == pytest.approx(49)
    assert found["spectune_bench_ttft_seconds"][four] == pytest.approx(0.05)
    assert found["spectune_bench_goodput_requests_per_second"] == {one: 1.5}
    assert found["spectune_bench_accept_length_tokens"][one] == 2
    assert found["spectune_bench_requestsok"][one] == 20
    assert found["spectune_bench_doubts"] == {one: 1, four: 0, fixed: 0}


def test_bounds_that_are_not_known_are_not_pushed(gateway: Gateway) -> None:
    push_bench(run(), gateway.url, "spectune")
    found = samples(gateway.pushes[0][2])
    assert "spectune_bench_ttft_p99_seconds" in found
    assert "spectune_bench_ttft_p99_seconds_high" not in found


def test_a_gateway_that_refuses_is_an_error(gateway: Gateway) -> None:
    gateway.status = 500
    with pytest.raises(HostError, match="refused the metrics: HTTP 500"):
        push_bench(run(), gateway.url, "spectune")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://user:hunter2@127.0.0.1:1", "gopher://x"])
def test_no_gateway_is_an_error_without_secrets(url: str) -> None:
    with pytest.raises(HostError, match="cannot push to") as caught:
        push_bench(run(), url, "spectune")
    assert "hunter2" not in caught.value.message
