"""Ports for servers that tests start."""

from __future__ import annotations

import os
import socket
from itertools import count

_FIRST, _AMOUNT = 20_000, 10_000
"""Below the ports that systems give to outgoing connections, one of which could take a port between its choice and
the start of its server."""

_numbers = count(os.getpid() * 97)


def fresh_port() -> int:
    """A free port of the loopback that no other test of this run is given."""
    for number in _numbers:
        port = _FIRST + number % _AMOUNT
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("counting has no end")
