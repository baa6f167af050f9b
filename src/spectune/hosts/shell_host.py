"""What Local and Ssh share: commands, files and followed output over wrapped sessions."""

from __future__ import annotations

import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from spectune.domain.errors import CommandFailed, CommandTimedOut, HostBusy, HostError, HostUnreachable, SudoRefused
from spectune.domain.hosts import Lines, Ran
from spectune.domain.ports import Clock
from spectune.hosts.files import get_argv, is_absent, put_argv, trouble
from spectune.hosts.session import Session, new_mark
from spectune.hosts.sudo import AskPassword, Prefix, Sudo
from spectune.hosts.wrapper import wrapped

TRANSFER_S = 120.0
FOLLOW_S = 30 * 86400
_START_S = 30.0
_ENDING_S = 4.0
# The host ends a command by its own clock only where spectune can't: a little later.
_MARGIN_S = 5
_BUSY_S = 2.0
_BUSY_POLL_S = 0.1
_LINE_LIMIT = 1 << 20


class ShellHost(ABC):
    """See the Host port. Subclasses say how a session is opened and what it means when one breaks.

    Args:
        name: for messages.
        clock: must run in real time, since commands do.
        ask: asks for a sudo password; None where nobody can be asked.
        channels: most commands at a time; more wait.
    """

    def __init__(self, name: str, clock: Clock, ask: AskPassword | None, channels: int) -> None:
        self.name = name
        self._clock = clock
        self._sudo = Sudo(name, ask)
        self._channels = threading.BoundedSemaphore(channels)
        self._count = channels

    @abstractmethod
    def _open(self, argv: list[bytes], mark: str, opening: bytes) -> Session:
        """Starts a wrapped command.

        Raises:
            HostUnreachable
        """

    @abstractmethod
    def _never_started(self, session: Session) -> HostError:
        """Why a session ended before its command was run; for a HostUnreachable it may be tried once more."""

    @abstractmethod
    def _broken(self, session: Session, what: str) -> HostError:
        """What it means that a session ended while its command ran."""

    def run(self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float, sudo: bool = False) -> Ran:
        """See Host."""
        return self._run(argv, input, timeout_s, self._prefix(sudo))

    def put(
        self, path: str, data: bytes, mode: int | None = None, owner: str | None = None, *, sudo: bool = False
    ) -> None:
        """See Host. A kill at the worst moment leaves a file `.spectune-*` beside it."""
        argv = put_argv(path, len(data), mode, owner, new_mark())
        ran = self._run(argv, data, TRANSFER_S, self._prefix(sudo), f"writing {path!a}")
        if ran.code != 0:
            raise trouble("write", path, self.name, ran)

    def get(self, path: str, *, sudo: bool = False) -> bytes | None:
        """See Host."""
        ran = self._run(get_argv(path), b"", TRANSFER_S, self._prefix(sudo), f"reading {path!a}")
        if is_absent(ran):
            return None
        if ran.code != 0:
            raise trouble("read", path, self.name, ran)
        return ran.out

    def follow(self, argv: Sequence[str], *, sudo: bool = False) -> AbstractContextManager[Lines]:
        """See Host. It is ended after 30 days at the latest."""
        return self._follow(argv, self._prefix(sudo))

    @contextmanager
    def _follow(self, argv: Sequence[str], prefix: Prefix) -> Iterator[Lines]:
        with self._channel(_START_S), self._start(argv, 0, FOLLOW_S, prefix) as session:
            session.go()
            yield _FollowedLines(session, self, _words(argv))

    def _run(self, argv: Sequence[str], input: bytes, timeout_s: float, prefix: Prefix, what: str = "") -> Ran:
        what = what or _words(argv)
        began = self._clock.monotonic()
        with self._channel(timeout_s), self._start(argv, len(input), timeout_s, prefix) as session:
            session.go(input)
            if session.pump(lambda: False, self._clock.monotonic() + timeout_s):
                raise self._timed_out(session, what, timeout_s)
            if session.code is None:
                raise self._broken(session, what)
            return Ran(session.code, bytes(session.out), bytes(session.err), self._clock.monotonic() - began)

    def _start(self, argv: Sequence[str], input_bytes: int, timeout_s: float, prefix: Prefix) -> Session:
        """A session that waits for `go`. What can't have run anything is tried again: once, or for a while where the
        host only has no room for another command yet."""
        if not argv or any("\0" in word for word in argv):
            raise HostError("a command must have words, and none of them can hold a NUL byte", "")
        words = [os.fsencode(word) for word in argv]
        busy_until = self._clock.monotonic() + _BUSY_S
        tried = 0
        while True:
            mark = new_mark()
            line = wrapped(words, mark, math.ceil(timeout_s) + _MARGIN_S, input_bytes)
            session = self._open([*map(os.fsencode, prefix.argv), *line], mark, prefix.opening)
            error = self._await_ready(session, bool(prefix.argv))
            if error is None:
                return session
            tried += 1
            if isinstance(error, HostBusy) and self._clock.monotonic() < busy_until:
                self._clock.sleep(_BUSY_POLL_S)
            elif tried > 1 or not isinstance(error, HostUnreachable):
                raise error

    def _await_ready(self, session: Session, sudo: bool) -> HostError | None:
        """Why the session, which is closed then, did not get ready; None where it did."""
        try:
            late = session.pump(lambda: session.ready, self._clock.monotonic() + _START_S)
            if session.ready:
                return None
            error = self._not_ready(session, late, sudo)
        except BaseException:
            session.close()
            raise
        session.close()
        return error

    def _not_ready(self, session: Session, late: bool, sudo: bool) -> HostError:
        if late:
            return HostUnreachable(f"{self.name} did not start a command within {_START_S:.0f} s", "Is it overloaded?")
        if sudo and b"sudo" in session.noise:
            said = session.noise.decode(errors="replace").strip().splitlines()[-1]
            return SudoRefused(f"sudo on {self.name}: {said}", "Allow this login to use sudo, or use root.")
        return self._never_started(session)

    def _timed_out(self, session: Session, what: str, timeout_s: float) -> CommandTimedOut:
        session.cut()
        late = session.pump(lambda: False, self._clock.monotonic() + _ENDING_S)
        ended = "whether it was ended could not be seen" if late else "it was ended"
        return CommandTimedOut(f"{what} on {self.name} took longer than {timeout_s:g} s; {ended}", "")

    def _prefix(self, sudo: bool) -> Prefix:
        if not sudo:
            return Prefix()
        return self._sudo.prefix(lambda argv, data: self._run(argv, data, _START_S, Prefix()))

    @contextmanager
    def _channel(self, timeout_s: float) -> Iterator[None]:
        if not self._channels.acquire(timeout=timeout_s):
            advice = "Wait for one of them to end."
            raise HostBusy(f"{self._count} commands already run on {self.name} at a time", advice)
        try:
            yield
        finally:
            self._channels.release()


class _FollowedLines:
    def __init__(self, session: Session, host: ShellHost, what: str) -> None:
        self._session = session
        self._host = host
        self._what = what
        self._searched = 0

    def __iter__(self) -> _FollowedLines:
        return self

    def __next__(self) -> str:
        session = self._session
        session.pump(self._has_line, None)
        if session.stopped:
            raise StopIteration
        end = session.out.find(b"\n", self._searched)
        if end >= 0 or session.out:
            end = end if end >= 0 else len(session.out)
            line = session.out[:end].decode(errors="replace")
            del session.out[: end + 1]
            self._searched = 0
            return line
        if session.code is None:
            raise self._host._broken(session, self._what)
        if session.code != 0:
            said = session.err.decode(errors="replace").strip()
            raise CommandFailed(f"{self._what} on {self._host.name} ended with code {session.code}: {said}", "")
        raise StopIteration

    def stop(self) -> None:
        self._session.stop()

    def _has_line(self) -> bool:
        """A line without an end is handed on in pieces rather than kept without limit."""
        self._session.forget_err()
        found = self._session.out.find(b"\n", self._searched) >= 0 or len(self._session.out) > _LINE_LIMIT
        if not found:
            self._searched = len(self._session.out)
        return found and self._session.ready


def _words(argv: Sequence[str]) -> str:
    """A command's first words, for messages. The rest may hold secrets."""
    return " ".join(argv[:1]).encode(errors="replace").decode()
