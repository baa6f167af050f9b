"""A port of a host, brought here through its ssh connection, and what that costs in time."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import statistics
import subprocess
from types import TracebackType

from spectune.domain.errors import HostBusy, HostError, HostLost
from spectune.domain.ports import Clock
from spectune.hosts.connection import Connection
from spectune.hosts.session import new_mark, spawn

_TRIES = 5
_ROUNDS = 21
_ANSWER_S = 10.0


class Forward:
    """A context manager; inside it `port` leads to a port of the host's own 127.0.0.1.

    An echo over the same connection tells what a round trip takes, and keeps the connection open.

    Attributes:
        port: on 127.0.0.1 of this machine.
        latency_s: median seconds of small round trips to the host through ssh: what each request waits longer than
            one that is sent on the host itself.
        worst_s: the slowest of them.
    """

    def __init__(self, connection: Connection, remote_port: int, clock: Clock) -> None:
        self.port = 0
        self.latency_s = 0.0
        self.worst_s = 0.0
        self._connection = connection
        self._remote_port = remote_port
        self._clock = clock
        self._echo: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Forward:
        """
        Raises:
            HostUnreachable, HostError: no connection, or its sshd does not forward.
        """
        try:
            self._echo = spawn(self._connection.client(b"exec cat"))
            # The first round trip waits for the start of cat, and of a login shell.
            self._round_trip()
            times = sorted(self._round_trip() for _ in range(_ROUNDS))
            self.latency_s, self.worst_s = statistics.median(times), times[-1]
            self._listen()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.control("-O", "cancel", "-L", self._spec(self.port))
        self._end()

    @property
    def words(self) -> str:
        """What the way through ssh adds, for people."""
        return (
            f"measured through ssh to {self._connection.name}: each round trip takes {self.latency_s * 1000:.1f} ms"
            f" longer than on the host itself (median of {_ROUNDS}; slowest {self.worst_s * 1000:.1f} ms)"
        )

    def is_alive(self) -> bool:
        """Whether the connection is still the one that carries the port."""
        return self._echo is not None and self._echo.poll() is None

    def _listen(self) -> None:
        said = ""
        for _ in range(_TRIES):
            # ssh can't choose a free port by itself; another program may take this one in between.
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = int(free.getsockname()[1])
            said = self._connection.control("-O", "forward", "-L", self._spec(port))
            if not said:
                self.port = port
                return
        advice = "Does its sshd_config allow it (AllowTcpForwarding)?"
        raise HostError(f"can't forward port {self._remote_port} of {self._connection.name}: {said}", advice)

    def _spec(self, port: int) -> str:
        return f"127.0.0.1:{port}:127.0.0.1:{self._remote_port}"

    def _round_trip(self) -> float:
        echo = self._echo
        assert echo is not None
        assert echo.stdin is not None
        assert echo.stdout is not None
        assert echo.stderr is not None
        token = new_mark().encode() + b"\n"
        began = self._clock.monotonic()
        seen = b""
        with contextlib.suppress(BrokenPipeError):
            echo.stdin.write(token)
        while token not in seen:
            left = began + _ANSWER_S - self._clock.monotonic()
            if not select.select([echo.stdout], [], [], max(0.0, left))[0]:
                raise HostLost(f"{self._connection.name} does not answer through ssh within {_ANSWER_S:.0f} s", "")
            chunk = os.read(echo.stdout.fileno(), 1 << 16)
            if not chunk:
                raise self._no_echo(echo.stderr.read().decode(errors="replace"))
            seen = (seen + chunk)[-(1 << 16) :]
        return self._clock.monotonic() - began

    def _no_echo(self, said: str) -> HostError:
        name = self._connection.name
        if "open refused by peer" in said:
            return HostBusy(f"sshd on {name} carries no more commands", "Raise MaxSessions in its sshd_config.")
        return HostLost(f"the connection to {name} was lost: {said.strip() or 'ssh ended'}", "Run it again.")

    def _end(self) -> None:
        if self._echo is None:
            return
        self._echo.kill()
        self._echo.wait()
        for stream in (self._echo.stdin, self._echo.stdout, self._echo.stderr):
            if stream:
                stream.close()
        self._echo = None
