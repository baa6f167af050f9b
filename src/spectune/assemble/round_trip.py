"""How long a connection to a server takes, from here and from another host."""

from __future__ import annotations

import socket
import statistics
import time
from contextlib import suppress
from urllib.parse import urlsplit

from spectune.domain.errors import HostError
from spectune.domain.hosts import Host

_TRIES = 5
_CONNECT_S = 2.0
_ASK_S = 30.0


def connect_s(url: str) -> float | None:
    """Median seconds for a TCP connection to a server, which is one round trip; None where it can't be reached."""
    address = _address(url)
    times = []
    with suppress(OSError):
        for _ in range(_TRIES):
            begun = time.perf_counter()
            socket.create_connection(address, _CONNECT_S).close()
            times.append(time.perf_counter() - begun)
    return statistics.median(times) if times else None


def connect_from_s(host: Host, python: str, url: str) -> float | None:
    """The same on a host.

    Args:
        python: of the host.
    """
    name, port = _address(url)
    argv = [python, "-I", "-c", _SCRIPT, name, str(port)]
    with suppress(HostError, ValueError):
        return float(host.run(argv, timeout_s=_ASK_S).checked("connecting").text)
    return None


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


_SCRIPT = f"""
import socket, statistics, sys, time
times = []
for _ in range({_TRIES}):
    begun = time.perf_counter()
    socket.create_connection((sys.argv[1], int(sys.argv[2])), {_CONNECT_S}).close()
    times.append(time.perf_counter() - begun)
print(statistics.median(times))
"""
