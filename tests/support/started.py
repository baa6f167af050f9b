"""A llama-server that somebody else started."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.ports import fresh_port

_READY_S = 60.0


@contextmanager
def llama(command: Sequence[str], log: Path) -> Iterator[str]:
    """The URL of a server once it is ready; it has gone at the end.

    Args:
        command: program and flags; the port is added.
    """
    port = fresh_port()
    url = f"http://127.0.0.1:{port}"
    with (
        log.open("wb") as output,
        subprocess.Popen([*command, "--port", str(port)], stdout=output, stderr=subprocess.STDOUT) as process,
    ):
        try:
            end = time.monotonic() + _READY_S
            while not _ready(url):
                assert process.poll() is None, log.read_text()[-2000:]
                assert time.monotonic() < end, log.read_text()[-2000:]
                time.sleep(0.05)
            yield url
        finally:
            process.kill()


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
