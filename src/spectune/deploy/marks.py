"""Marks: how servers of this machine are recognised as started by spectune, and by which start of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spectune.deploy.guard import KILL_LIMIT_S, MARK, OWNER, Process, process_table, read_process, send
from spectune.domain.errors import HostError
from spectune.domain.ports import Clock

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Marked:
    """A living process that carries a mark.

    Attributes:
        owned: whether the spectune that started it still lives.
    """

    process: Process
    mark: str
    owned: bool

    @property
    def label(self) -> str:
        return f"{self.process.name} (pid {self.process.pid}, mark {self.mark})"


def owner_tag() -> str:
    """Names the calling process in the environment of the servers it starts: "pid:start ticks"."""
    process = read_process(os.getpid())
    return f"{os.getpid()}:{process.ticks if process else 0}"


def environment(pid: int) -> Mapping[bytes, bytes]:
    """The environment a process was started with; empty where it can't be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return {}
    return {name: value for name, equals, value in (entry.partition(b"=") for entry in entries) if equals}


def marked(prefix: str) -> list[Marked]:
    """Processes whose mark begins with `prefix`, without the calling process and those above it."""
    table = process_table()
    above = _lineage(os.getpid(), table)
    found: list[Marked] = []
    for process in table.values():
        if not process.alive or process.pid in above:
            continue
        variables = environment(process.pid)
        mark = variables.get(MARK.encode(), b"").decode(errors="replace")
        if mark and mark.startswith(prefix):
            found.append(Marked(process, mark, _lives(variables.get(OWNER.encode(), b""))))
    return found


def end_all(pick: Callable[[], list[Marked]], grace_s: float, clock: Clock) -> tuple[str, ...]:
    """Ends every process that `pick` names, again and again until it names none: SIGTERM, then SIGKILL after the grace.

    Returns:
        Labels of the processes that were ended.

    Raises:
        HostError: when some can't be ended.
    """
    seen: dict[tuple[int, int], Marked] = {}
    kill_at = clock.monotonic() + grace_s
    while left := pick():
        now = clock.monotonic()
        if now > kill_at + KILL_LIMIT_S:
            names = ", ".join(leftover.label for leftover in left)
            raise HostError(f"could not end {names}", "End them by hand, as the user they belong to.")
        for leftover in left:
            identity = (leftover.process.pid, leftover.process.ticks)
            if now >= kill_at:
                send(leftover.process, signal.SIGKILL)
            elif identity not in seen:
                send(leftover.process, signal.SIGTERM)
            seen[identity] = leftover
        clock.sleep(_POLL_S)
    return tuple(leftover.label for leftover in seen.values())


def _lives(tag: bytes) -> bool:
    pid, colon, ticks = tag.partition(b":")
    if not (colon and pid.isdigit() and ticks.isdigit()):
        return False
    process = read_process(int(pid))
    return process is not None and process.alive and process.ticks == int(ticks)


def _lineage(pid: int, table: Mapping[int, Process]) -> set[int]:
    lineage: set[int] = set()
    while pid in table and pid not in lineage:
        lineage.add(pid)
        pid = table[pid].parent
    return lineage
