"""A server under guard: spectune's end of the pipes to guard.py."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from spectune.deploy import guard
from spectune.deploy.guard import Process, descendants, read_process
from spectune.deploy.logs import LogFile
from spectune.deploy.marks import Marked, end_all, marked, owner_tag
from spectune.domain.deployment import Launch
from spectune.domain.errors import HostError
from spectune.domain.ports import Clock

_START_LIMIT_S = 30.0
_MARGIN_S = 5.0
# Programs that rename themselves with setproctitle overwrite the environment that /proc shows, and the mark in it,
# unless told not to.
_TITLES_SPARE_THE_ENVIRONMENT = {"SPT_NOENV": "1"}


class Guarded:
    """One server and the guard that watches over it. Nothing runs before `start`, nothing is left after `stop`.

    Attributes:
        pid: of the server, 0 before it is started.
        exit_code: negative for a signal; None while the server runs.
    """

    def __init__(self, launch: Launch, mark: str, log: LogFile, grace_s: float) -> None:
        self.pid = 0
        self.exit_code: int | None = None
        self._argv = launch.argv
        inherited = {name: value for name, value in os.environ.items() if not _unset(name, launch.unset)}
        self._env = {**inherited, **launch.env, **_TITLES_SPARE_THE_ENVIRONMENT, guard.OWNER: owner_tag()}
        self._mark = mark
        self._log = log
        self._grace_s = grace_s
        self._guard: subprocess.Popen[bytes] | None = None
        self._server: Process | None = None
        self._said = b""
        self._failed: int | None = None
        self._left: tuple[str, ...] = ()
        self._ended = False
        self._silent = False
        # The pipes exist before the guard does, so that an interrupt at any point of the start leaves a control pipe
        # that can be closed, and a guard that ends at its closing. As file objects, they also close when forgotten.
        theirs, ours = os.pipe()
        self._guard_input, self._control = os.fdopen(theirs, "rb", 0), os.fdopen(ours, "wb", 0)
        ours, theirs = os.pipe()
        self._reports, self._guard_output = os.fdopen(ours, "rb", 0), os.fdopen(theirs, "wb", 0)

    def start(self) -> None:
        """Starts the guard and through it the server, and returns once the server's program is loaded.

        Raises:
            HostError: when the program, or the guard, can't be started.
        """
        command = [sys.executable, "-I", "-S", guard.__file__, str(os.getpid()), str(self._grace_s), self._mark]
        try:
            self._guard = subprocess.Popen(
                [*command, *self._argv],
                stdin=self._guard_input,
                stdout=self._guard_output,
                stderr=self._log.descriptor,
                env=self._env,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise HostError(f"can't start {self._argv[0]}: {error}", _advice(error)) from error
        self._guard_input.close()
        self._guard_output.close()
        deadline = time.monotonic() + _START_LIMIT_S
        while not self.pid and self._failed is None and not self._silent and time.monotonic() < deadline:
            self._listen(deadline - time.monotonic())
        if self._failed is not None:
            raise _not_started(self._argv[0], self._failed)
        if not self.pid:
            tail = self._log.tail()
            raise HostError(f"the guard process of {self._argv[0]} did not start: {tail or 'it said nothing'}")

    def poll(self) -> int | None:
        """The server's exit code, None while it runs."""
        self._listen(0.0)
        if self._silent and self.exit_code is None and not self._server_lives():
            # The guard was killed, and the kernel killed the server for it.
            self.exit_code = -signal.SIGKILL
        return self.exit_code

    def tree(self) -> list[Process]:
        """The living processes of the server: itself and all that it started, whatever group they are in now."""
        if self._guard is not None and not self._silent:
            family = descendants(self._guard.pid)
        elif self._server_lives():
            family = [*(one.process for one in self._marked()), *descendants(self.pid)]
        else:
            family = [one.process for one in self._marked()]
        return list({process.pid: process for process in family if process.alive}.values())

    def pids(self) -> list[int]:
        """Pids of the tree."""
        return [process.pid for process in self.tree()]

    def stop(self, clock: Clock) -> None:
        """Ends the server and all that it started, and returns when they are gone. A second call does nothing.

        An interrupt while it waits ends the grace and is raised again when all is over.

        Raises:
            HostError: when processes are left that can't be ended.
        """
        interrupt: BaseException | None = None
        self._guard_input.close()
        self._guard_output.close()
        self._say(b"t")
        deadline = time.monotonic() + self._grace_s + guard.KILL_LIMIT_S + _MARGIN_S
        while not (self._ended or self._silent) and time.monotonic() < deadline:
            try:
                self._listen(deadline - time.monotonic())
            except BaseException as raised:
                interrupt = raised
                self._say(b"k")
                deadline = min(deadline, time.monotonic() + guard.KILL_LIMIT_S + _MARGIN_S)
        self._control.close()
        self._reap_guard()
        if not self._ended:
            # No word from the guard: it was killed. Its server died with it, but not what the server had started.
            end_all(self._marked, self._grace_s, clock)
            self._ended = True
        self._reports.close()
        if self._left:
            raise HostError(
                f"could not end {', '.join(self._left)}", "End them by hand, as the user they belong to, and try again."
            )
        if interrupt is not None:
            raise interrupt

    def _say(self, word: bytes) -> None:
        # The guard may be gone, and the pipe may have been closed by an earlier stop.
        with contextlib.suppress(OSError, ValueError):
            self._control.write(word)

    def _listen(self, seconds: float) -> None:
        """Takes in what the guard reports, waiting up to `seconds` for something."""
        if self._silent or self._reports.closed:
            return
        poller = select.poll()
        poller.register(self._reports, select.POLLIN)
        if not poller.poll(max(0.0, seconds) * 1000):
            return
        part = self._reports.read(4096)
        self._silent = not part
        *lines, self._said = (self._said + part).split(b"\n")
        for line in lines:
            self._heed(line.decode())

    def _heed(self, line: str) -> None:
        word, *numbers = line.split()
        match word:
            case "started":
                self.pid = int(numbers[0])
                self._server = read_process(self.pid)
            case "failed":
                self._failed = int(numbers[0])
                self._ended = True
            case "exited":
                self.exit_code = int(numbers[0])
            case "ended":
                self._ended = True
            case "left":
                self._ended = True
                self._left = tuple(_named(int(number)) for number in numbers)

    def _server_lives(self) -> bool:
        now = read_process(self.pid)
        if now is None or self._server is None:
            return False
        return now.alive and now.ticks == self._server.ticks

    def _marked(self) -> list[Marked]:
        return [one for one in marked(self._mark) if one.mark == self._mark]

    def _reap_guard(self) -> None:
        if self._guard is None:
            return
        try:
            self._guard.wait(_MARGIN_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait(_MARGIN_S)


def _unset(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _named(pid: int) -> str:
    process = read_process(pid)
    return f"{process.name} (pid {pid})" if process else f"pid {pid}"


def _advice(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return "Shorten the command line or the environment."
    return ""


def _not_started(program: str, code: int) -> HostError:
    """What exec's errno means to the user."""
    found = Path(program).exists()
    match code:
        case errno.ENOENT if found:
            return HostError(f"can't start {program}: its interpreter or loader is missing", "Reinstall the program.")
        case errno.ENOENT | errno.ENOTDIR:
            return HostError(f"no program {program}", "Check the path of the engine's binary.")
        case errno.EACCES if found:
            return HostError(f"{program} is not executable", f"Check the path, or run: chmod +x {program}")
        case errno.ENOEXEC:
            return HostError(
                f"{program} is not a program for this machine (exec format error)",
                "It may be built for another processor, be cut short, or be a script without its #! line.",
            )
    return HostError(f"can't start {program}: {os.strerror(code)}", _advice(OSError(code, "")))
