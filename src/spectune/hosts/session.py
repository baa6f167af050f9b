"""One command on its way: the wrapper's side of the talk that stays here."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import selectors
import signal
import subprocess
from collections.abc import Callable, Sequence
from types import TracebackType

from spectune.domain.errors import HostError
from spectune.domain.ports import Clock

_CHUNK = 1 << 18
_NOISE_LIMIT = 1 << 16
_ENDING_S = 1.0
# What the wrapper writes behind its mark.
_BEGUN, _BEAT = b"(~"
_CODE_LENGTH = len(").255")


def new_mark() -> str:
    """A mark that no command writes by chance or on purpose."""
    return secrets.token_hex(12)


class Session:
    """A wrapped command and what it has said so far. Not for several threads, but for `stop`.

    Attributes:
        code: the command's exit code, once all its output is here.
        out, err: output so far; `out` may be emptied by the reader.
        noise: what was written to stderr before the wrapper was there: ssh, sudo and login shells speak here.
        stopped: `stop` was called.
    """

    def __init__(self, process: subprocess.Popen[bytes], mark: str, clock: Clock, opening: bytes = b"") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.code: int | None = None
        self.out = bytearray()
        self.err = bytearray()
        self.noise = b""
        self.stopped = False
        self._process = process
        self._clock = clock
        self._mark = mark.encode()
        self._outgoing: list[memoryview] = [memoryview(opening)] if opening else []
        self._out_begun = self._err_begun = self._out_done = False
        self._err_code: int | None = None
        self._in, self._out, self._err = process.stdin.fileno(), process.stdout.fileno(), process.stderr.fileno()
        self._wake_read, self._wake_write = os.pipe()
        self._selector = selectors.DefaultSelector()
        for descriptor in (self._in, self._out, self._err, self._wake_read):
            os.set_blocking(descriptor, False)
        for descriptor in (self._out, self._err, self._wake_read):
            self._selector.register(descriptor, selectors.EVENT_READ)
        self._open = {self._out, self._err}
        self._want_write()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the command if it still runs."""
        self._end()
        self._selector.close()
        for stream in (self._process.stdout, self._process.stderr):
            if stream:
                stream.close()
        os.close(self._wake_read)
        wake, self._wake_write = self._wake_write, -1
        os.close(wake)

    @property
    def ready(self) -> bool:
        """The wrapper waits for `go`; nothing was run before that."""
        return self._out_begun and self._err_begun

    @property
    def over(self) -> bool:
        """Nothing more will come."""
        return self.code is not None or not self._open

    @property
    def transport_code(self) -> int:
        """Exit code of what carried the command, once it is over without the command's own."""
        return self._end()

    def go(self, data: bytes = b"") -> None:
        """Lets the command start, with its input."""
        self._outgoing += [memoryview(part) for part in (b"go\n", data, b"end\n") if part]
        self._want_write()

    def cut(self) -> None:
        """Cuts the lifeline: the wrapper ends the command."""
        self._outgoing.clear()
        if self._process.stdin and not self._process.stdin.closed:
            self._want_write()
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def stop(self) -> None:
        """Ends a `pump` in another thread."""
        self.stopped = True
        if self._wake_write >= 0:
            with contextlib.suppress(OSError):
                os.write(self._wake_write, b".")

    def pump(self, until: Callable[[], bool], deadline: float | None) -> bool:
        """Moves data until a condition holds, nothing more will come, or the deadline (monotonic seconds) has passed.

        Returns:
            Whether the deadline has passed.
        """
        while not (until() or self.over or self.stopped):
            left = None if deadline is None else deadline - self._clock.monotonic()
            if left is not None and left <= 0:
                return True
            for key, _ in self._selector.select(left):
                if key.fd == self._in:
                    self._write()
                elif key.fd == self._wake_read:
                    os.read(self._wake_read, 1)
                else:
                    self._read(key.fd)
        return False

    def _end(self) -> int:
        self.cut()
        with contextlib.suppress(subprocess.TimeoutExpired):
            # Some commands leave children that hold the output open; they are not waited for.
            return self._process.wait(_ENDING_S if self.code is not None else 3 * _ENDING_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait()

    def _want_write(self) -> None:
        if self._outgoing and self._in not in self._selector.get_map():
            self._selector.register(self._in, selectors.EVENT_WRITE)
        elif not self._outgoing and self._in in self._selector.get_map():
            self._selector.unregister(self._in)

    def _write(self) -> None:
        try:
            written = os.write(self._in, self._outgoing[0][:_CHUNK])
        except BlockingIOError:
            return
        except OSError:
            # Whoever read it is gone; what comes from its output tells why.
            self._outgoing.clear()
        else:
            self._outgoing[0] = self._outgoing[0][written:]
            if not self._outgoing[0]:
                del self._outgoing[0]
        self._want_write()

    def _read(self, descriptor: int) -> None:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            self._selector.unregister(descriptor)
            self._open.discard(descriptor)
        elif descriptor == self._out:
            self._take_out(chunk)
        else:
            self._take_err(chunk)
        if self._out_done and self._err_code is not None:
            self.code = self._err_code

    def _take_out(self, chunk: bytes) -> None:
        if self._out_done:
            return
        start = max(0, len(self.out) - len(self._mark))
        self.out += chunk
        while (found := self.out.find(self._mark, start)) >= 0 and found + len(self._mark) < len(self.out):
            sign = self.out[found + len(self._mark)]
            if sign == _BEGUN:
                # Profiles of login shells may write before the command is there.
                self._out_begun = True
                del self.out[: found + len(self._mark) + 1]
                start = 0
            elif sign == _BEAT:
                del self.out[found : found + len(self._mark) + 1]
                start = found
            else:
                self._out_done = True
                del self.out[found:]
                return

    def _take_err(self, chunk: bytes) -> None:
        if self._err_code is not None:
            return
        start = max(0, len(self.err) - len(self._mark) - _CODE_LENGTH)
        self.err += chunk
        if not self._err_begun:
            line = self._mark + bytes([_BEGUN])
            found = self.err.find(line)
            self.noise = bytes(self.err if found < 0 else self.err[:found])[-_NOISE_LIMIT:]
            if found < 0:
                return
            self._err_begun = True
            del self.err[: found + len(line)]
            start = 0
        if end := re.compile(self._mark + rb"\)(\d+)\.").search(self.err, start):
            self._err_code = int(end[1])
            del self.err[end.start() :]

    def forget_err(self) -> None:
        """Keeps only the end of a long stderr, for commands that go on for hours."""
        if len(self.err) > 2 * _NOISE_LIMIT:
            del self.err[:-_NOISE_LIMIT]


def spawn(argv: Sequence[bytes]) -> subprocess.Popen[bytes]:
    """Starts a program in a session of its own, where Ctrl-C at the terminal does not reach it.

    Raises:
        HostError: it can't be started.
    """
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True)
    except FileNotFoundError as error:
        program = os.fsdecode(argv[0])
        raise HostError(f"{program} is not installed on this machine", f"Install {program} and try again.") from error
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise HostError(f"can't start {os.fsdecode(argv[0])}: {said}", "") from error
