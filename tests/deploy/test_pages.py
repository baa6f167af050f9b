"""Pages that come late, and servers that answer nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from spectune.assemble.clock import SystemClock
from spectune.deploy import pages
from spectune.deploy.pages import Pages

SLOW_S = 1.0
released = threading.Event()


class Server(ThreadingHTTPServer):
    """/quick answers at once, /late SLOW_S after the first question, /never not at all."""

    daemon_threads = True
    begun: float | None = None


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        if self.path == "/late":
            server.begun = server.begun or time.monotonic()
            time.sleep(max(0.0, server.begun + SLOW_S - time.monotonic()))
        if self.path == "/never":
            released.wait(20)
        with suppress(OSError):
            self.send_response(200)
            self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(pages, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(pages, "_LATE_S", 3.0)
    released.clear()
    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        released.set()
        server.shutdown()


@pytest.mark.parametrize(
    ("paths", "statuses", "at_most_s"),
    [
        (["/late", "/quick"], [200, 200], 15.0),
        (["/quick", "/never"], [200, 0], 15.0),
        (["/never"], [0], 2.5),
        (["/late"], [0], 2.5),
    ],
    ids=["late beside another", "never beside another", "never alone", "late alone"],
)
def test_a_late_page_is_waited_for_while_others_come(
    url: str, paths: list[str], statuses: list[int], at_most_s: float
) -> None:
    fetching = Pages(url, SystemClock())
    began = time.monotonic()
    found = fetching.get_all(paths)
    took = time.monotonic() - began
    fetching.close()
    assert [found[path].status for path in paths] == statuses
    assert took < at_most_s


def test_a_server_that_is_gone_is_not_asked_again() -> None:
    fetching = Pages("http://127.0.0.1:9", SystemClock())
    began = time.monotonic()
    found = fetching.get_all(["/one", "/two"])
    fetching.close()
    assert {page.status for page in found.values()} == {0}
    assert time.monotonic() - began < 10
