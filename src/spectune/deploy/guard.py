"""The guard: a small process between spectune and a server, which ends the server whatever happens to spectune.

Run as `python -I -S guard.py OWNER GRACE_S MARK ARGV...`, where OWNER is spectune's pid and GRACE_S the seconds between
SIGTERM and SIGKILL. It stands alone (standard library only, few imports), since it is started before every server.

stdin   control: b"t" ends the server and all it started, b"k" does so without grace. End of file means that spectune is
        gone, perhaps killed: then the grace is two seconds at most, since the next run may already want the port.
stdout  reports, one a line: "started PID" or "failed ERRNO", "exited CODE" (negative: signal), and at last "ended",
        or "left PID..." when something could not be ended.
stderr  the log, which becomes the server's standard output and standard error.

The guard is a subreaper: whatever the server starts stays below the guard, even if it leaves group and session. The
server is not reaped before all is over, so that neither its pid nor its group's can come to mean something else.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

MARK = "SPECTUNE_MARK"
OWNER = "SPECTUNE_OWNER"

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_TICK_S = 0.05
_STRAGGLER_GRACE_S = 1.0
_ORPHAN_GRACE_S = 2.0
KILL_LIMIT_S = 10.0


class Process:
    """A row of the process table. `pid` and `ticks` (start time, clock ticks since boot) together name one process."""

    __slots__ = ("group", "name", "parent", "pid", "rss_pages", "state", "ticks")

    def __init__(self, pid: int, stat: bytes) -> None:
        opening, closing = stat.index(b"("), stat.rindex(b")")
        fields = stat[closing + 2 :].split()
        self.pid = pid
        self.name = stat[opening + 1 : closing].decode(errors="replace")
        self.state = fields[0].decode()
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.ticks = int(fields[19])
        self.rss_pages = int(fields[21])

    @property
    def alive(self) -> bool:
        """Whether it still runs: a zombie holds neither memory nor sockets."""
        return self.state not in "ZX"


def read_process(pid: int) -> Process | None:
    """The process of that pid now, None where there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return Process(pid, file.read())
    except (OSError, ValueError, IndexError):
        return None


def process_table() -> dict[int, Process]:
    """All processes that can be seen, zombies included."""
    rows = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {row.pid: row for row in rows if row is not None}


def descendants(root: int) -> list[Process]:
    """Children of a process and their children, down to the last; zombies included, the root not."""
    table = process_table()
    children: dict[int, list[Process]] = {}
    for row in table.values():
        children.setdefault(row.parent, []).append(row)
    found: list[Process] = []
    todo = [root]
    while todo:
        below = children.pop(todo.pop(), [])
        found += below
        todo += [row.pid for row in below]
    return found


def send(process: Process, number: int) -> None:
    """Signals exactly this process; one that has ended or may not be signalled is left alone."""
    handle = _pidfd(process.pid)
    try:
        now = read_process(process.pid)
        if now is None or now.ticks != process.ticks:
            return
        if handle is None:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        pass
    finally:
        if handle is not None:
            os.close(handle)


def _pidfd(pid: int) -> int | None:
    """A handle that can't come to mean another process; None where the process or the system call is missing."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _spawn(argv: list[str], env: dict[str, str]) -> int:
    """Starts the server in a session of its own and returns its pid once the program is loaded.

    Raises:
        OSError: with the errno of exec.
    """
    guard = os.getpid()
    failure, failed = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == guard:
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(2, 1)
                # Ignored signals stay ignored across exec, and the server must have none that it did not choose.
                for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                os.execvpe(argv[0], argv, env)
        except OSError as error:
            os.write(failed, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(failed)
    code = os.read(failure, 16)
    os.close(failure)
    if code:
        os.waitpid(pid, 0)
        raise OSError(int(code), os.strerror(int(code)))
    return pid


def _report(line: str) -> None:
    # Without spectune nobody listens, but there is still a server to end.
    with contextlib.suppress(OSError):
        os.write(1, line.encode() + b"\n")


class _Guard:
    def __init__(self, server: int) -> None:
        self.server = server
        self.exited = False
        self.kill_at: float | None = None
        self.give_up_at: float | None = None

    @property
    def ending(self) -> bool:
        return self.kill_at is not None

    def end(self, within_s: float) -> None:
        """Asks the server's group, and whatever left it, to terminate within so many seconds, or those of an earlier
        call, whichever end first."""
        if self.ending:
            self._kill_within(within_s)
            return
        self._kill_within(min(within_s, _STRAGGLER_GRACE_S) if self.exited else within_s)
        outside = [process for process in descendants(os.getpid()) if process.group != self.server]
        self._signal_group(signal.SIGTERM)
        for process in outside:
            send(process, signal.SIGTERM)

    def collect(self) -> None:
        """Notes the server's end, and reaps orphans that came to the guard."""
        if not self.exited:
            ended = os.waitid(os.P_PID, self.server, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                self.exited = True
                _report(f"exited {ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status}")
                if self.ending:
                    self._kill_within(_STRAGGLER_GRACE_S)
        for process in descendants(os.getpid()):
            if not process.alive and process.parent == os.getpid() and process.pid != self.server:
                os.waitpid(process.pid, os.WNOHANG)

    def finished(self) -> bool:
        """Kills what has outlived its grace. True when nothing is left, or nothing more can be done."""
        now = time.monotonic()
        left = [process for process in descendants(os.getpid()) if process.alive]
        if self.kill_at is not None and now >= self.kill_at and left:
            self.give_up_at = self.give_up_at or now + KILL_LIMIT_S
            self._signal_group(signal.SIGKILL)
            for process in left:
                send(process, signal.SIGKILL)
        if left and (self.give_up_at is None or now < self.give_up_at):
            return False
        self.collect()
        _report("left " + " ".join(str(process.pid) for process in left) if left else "ended")
        return True

    def _kill_within(self, seconds: float) -> None:
        then = time.monotonic() + seconds
        self.kill_at = then if self.kill_at is None else min(self.kill_at, then)

    def _signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.server, number)


def _wakeup() -> int:
    """A descriptor that delivers the numbers of SIGCHLD and SIGTERM; other signals of a terminal are ignored."""
    arrived, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return arrived


def main(arguments: list[str]) -> None:
    owner, grace_s, mark, argv = int(arguments[0]), float(arguments[1]), arguments[2], arguments[3:]
    signals = _wakeup()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    poller = select.poll()
    poller.register(0, select.POLLIN)
    poller.register(signals, select.POLLIN)
    # A process forked from spectune may hold a copy of the pipe, so its end of file alone does not tell of every death.
    owner_ends = _pidfd(owner)
    if owner_ends is not None:
        poller.register(owner_ends, select.POLLIN)
    if os.getppid() != owner:
        return
    try:
        server = _spawn(argv, {**os.environ, MARK: mark})
    except OSError as error:
        _report(f"failed {error.errno}")
        return
    _report(f"started {server}")
    guard = _Guard(server)
    orphan_grace_s = min(grace_s, _ORPHAN_GRACE_S)
    while not (guard.ending and guard.finished()):
        for descriptor, _ in poller.poll(_TICK_S * 1000 if guard.ending else None):
            if descriptor == owner_ends:
                poller.unregister(descriptor)
                guard.end(orphan_grace_s)
                continue
            said = os.read(descriptor, 64)
            if descriptor == 0:
                if not said:
                    poller.unregister(0)
                    guard.end(orphan_grace_s)
                else:
                    guard.end(0.0 if b"k" in said else grace_s)
            elif signal.SIGTERM in said:
                guard.end(grace_s)
        guard.collect()


if __name__ == "__main__":
    main(sys.argv[1:])
