"""What a simulated server does to its machine: the GPU memory it seems to hold, what it leaves behind, how it dies."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import NoReturn

from spectune.sim.sglang.faults import Faults
from spectune.sim.sglang.log import Log

SLEEP = "/bin/sleep"
TITLE = "sglang::scheduler"


class GpuMemory:
    """A file that stands for the GPU: a line "pid bytes" for each process that holds memory.

    As on a GPU, what a dead process held is free again; readers skip lines of dead processes.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def hold(self, pid: int, size: int) -> None:
        """Note that a process holds so many bytes."""
        self._rewrite(pid, f"{pid} {size}\n")

    def release(self, pid: int) -> None:
        """Note that it holds nothing any more."""
        self._rewrite(pid, "")

    def _rewrite(self, pid: int, line: str) -> None:
        if self._path is None:
            return
        with self._path.open("a+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            others = [text for text in file if text.split()[:1] != [str(pid)]]
            file.seek(0)
            file.truncate()
            file.write("".join(others) + line)


def leave_orphans(faults: Faults, listener: socket.socket, memory: GpuMemory, size: int) -> None:
    """Start the children that faults ask for; each ends by itself after the fault's seconds."""
    if seconds := faults.get("orphan-child"):
        _orphan(seconds, listener.fileno())
    if seconds := faults.get("orphan-gpu"):
        memory.hold(_orphan(seconds), size)


def _orphan(seconds: float, *descriptors: int) -> int:
    child = subprocess.Popen(
        [TITLE, f"{seconds:g}"],
        executable=SLEEP,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=descriptors,
        start_new_session=True,
    )
    child.returncode = 0  # never waited for, on purpose
    return child.pid


def die(log: Log, memory: GpuMemory, error: str, loading: bool) -> NoReturn:
    """End as the engine does when its scheduler fails: traceback, signal from the child, SIGKILL to itself."""
    log.scheduler(
        "Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "spectune/sim/sglang/scheduler.py", in run_scheduler_process\n' + error + "\n"
    )
    log.line(
        "Received sigquit from a child process. It usually means the child failed."
        if loading
        else "SIGQUIT received. signum=None, frame=None. It usually means one child failed."
    )
    end(log, memory)


def end(log: Log, memory: GpuMemory) -> NoReturn:
    """SIGKILL to itself, which is how this engine also ends a clean stop."""
    pid = os.getpid()
    log.line(f"kill_process_tree called: parent_pid={pid}, include_parent=True, pid={pid}")
    memory.release(pid)
    os.kill(pid, signal.SIGKILL)
    raise SystemExit(1)
