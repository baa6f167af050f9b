from __future__ import annotations

import http.server
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectune.assemble.clock import SystemClock
from spectune.domain.hosts import HostAddress
from spectune.hosts.ssh import Ssh
from tests.hosts.sshd import ALIAS, Sshd


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"served")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def web_port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever).start()
        yield server.server_address[1]
        server.shutdown()


def fetch(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as page:
        return bytes(page.read())


def test_a_port_of_the_host(ssh: Ssh, web_port: int) -> None:
    with ssh.forward(web_port) as forward:
        assert forward.port not in {0, web_port}
        assert fetch(forward.port) == b"served"
        assert ssh.run(["true"], timeout_s=20).code == 0
        assert 0 < forward.latency_s <= forward.worst_s < 20
        assert forward.is_alive()
        assert f"{forward.latency_s * 1000:.1f} ms longer" in forward.words
        assert "llm-two" in forward.words
    assert not forward.is_alive()
    with pytest.raises(urllib.error.URLError):
        fetch(forward.port)


def test_two_forwards(ssh: Ssh, web_port: int) -> None:
    with ssh.forward(web_port) as one, ssh.forward(web_port) as other:
        assert one.port != other.port
        assert fetch(one.port) == fetch(other.port) == b"served"


def test_a_lost_connection_is_seen(ssh: Ssh, sshd: Sshd, web_port: int) -> None:
    with ssh.forward(web_port) as forward:
        sshd.kill_connections()
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            fetch(forward.port)
        seen = [forward.is_alive()]
        while seen[-1] and len(seen) < 500:
            SystemClock().sleep(0.01)
            seen.append(forward.is_alive())
        assert not seen[-1]
    with ssh.forward(web_port) as forward:
        assert fetch(forward.port) == b"served"


def test_no_forwarding_allowed(tmp_path: Path, clock: SystemClock) -> None:
    sshd = Sshd(tmp_path, "AllowTcpForwarding no")
    sshd.start()
    try:
        with (
            Ssh(HostAddress(ALIAS, config=str(sshd.config)), clock) as host,
            host.forward(1) as forward,
            pytest.raises(OSError, match=r"(?i)closed|reset|refused"),
        ):
            fetch(forward.port)
    finally:
        sshd.stop()
