"""Faults at chosen moments: a host that stands between spectune and the real one, and who looks what is left."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from spectune.assemble.ways import Way
from spectune.domain.errors import SpectuneError
from spectune.domain.hosts import Host, Lines, Ran
from spectune.domain.service_state import Purpose, Winner
from tests.systemd.box import FAKE, PORT, PYTHON, Bench, whole_command

WINNER = Winner("demo-1", "abcd1234", "mtp k=2", "a test")
PROMOTED = [PYTHON, FAKE, "--port", str(PORT), "--spam", "2"]


@dataclass
class Disturbed:
    """A host on which something happens just before the command with a given number, or in its midst.

    Attributes:
        count: commands so far.
        moment: the command that is disturbed, for people.
    """

    host: Host
    at: int
    fault: Callable[[], None]
    within_s: float = 0.0
    count: int = 0
    moment: str = ""

    def run(self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float, sudo: bool = False) -> Ran:
        self._step(_named(argv))
        return self.host.run(argv, input=input, timeout_s=timeout_s, sudo=sudo)

    def put(
        self, path: str, data: bytes, mode: int | None = None, owner: str | None = None, *, sudo: bool = False
    ) -> None:
        self._step(f"write {path.rpartition('/')[2]}")
        self.host.put(path, data, mode, owner, sudo=sudo)

    def get(self, path: str, *, sudo: bool = False) -> bytes | None:
        self._step(f"read {path.rpartition('/')[2]}")
        return self.host.get(path, sudo=sudo)

    def follow(self, argv: Sequence[str], *, sudo: bool = False) -> AbstractContextManager[Lines]:
        self._step("keep the lock")
        return self.host.follow(argv, sudo=sudo)

    def _step(self, moment: str) -> None:
        self.count += 1
        self.moment = moment if self.count <= self.at else self.moment
        if self.count != self.at:
            return
        if self.within_s:
            threading.Timer(self.within_s, self.fault).start()
        else:
            self.fault()


_NAMES = {
    "ActiveState": "look at the unit",
    ".lock-": "take the lock",
    "lock/owner": "check or give back the lock",
    "nvidia-smi": "look at the GPUs",
    "reset-failed": "systemctl start",
    "journalctl --sync": "read the journal",
    "ls -1": "list promotions",
    "rm -rf": "remove the plan",
    "rm -f": "remove the drop-in",
    "stat -c": "look at a file",
    "chmod 700": "make the folder of records",
}


def _named(argv: Sequence[str]) -> str:
    text = " ".join(argv)
    return next((name for part, name in _NAMES.items() if part in text), " ".join(argv[:2]))


def campaign(bench: Bench, promoted: bool = True) -> None:
    """What a run does: one trial, then the promotion of a winner."""
    text = whole_command(bench.launch("--spam", "2"), {})
    with bench.guard().around(Purpose.CAMPAIGN):
        with bench.deployer().deploy(bench.launch("--spam", "1"), "demo-1.1.1") as running:
            running.observe(["/health"])
        if promoted:
            bench.guard_now.promote(WINNER, text)


def killed(bench: Bench, at: int, within_s: float, act: Callable[[Bench], None] = campaign) -> str:
    """Runs the campaign, or what else is told, in a process that is killed with SIGKILL at a command, and tells which
    that was; "" where it ended before."""
    theirs, ours = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1

        def end() -> None:
            os.write(ours, disturbed.moment.encode())
            os.kill(os.getpid(), signal.SIGKILL)

        try:
            bench.between = disturbed = Disturbed(bench.ssh, at, end, within_s)
            # A process of the parent's: here it would seem to be dead.
            with Way(bench.ssh, "", PORT) as bench.way:
                act(bench)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    os.close(ours)
    with os.fdopen(theirs, "rb") as reader:
        moment = reader.read().decode()
    return moment if os.WIFSIGNALED(status) else ""


def told_by(act: Callable[[], None]) -> str:
    """What the user is told; "" where nothing went wrong."""
    try:
        act()
    except SpectuneError as error:
        return error.message
    except KeyboardInterrupt:
        return "interrupted"
    return ""


@dataclass(frozen=True)
class Old:
    """A service before a fault."""

    files: dict[str, bytes]
    argv: list[str]

    @classmethod
    def of(cls, bench: Bench) -> Old:
        argv = bench.box.start(bench.name)
        return cls(bench.box.files(bench.name), argv)

    def is_back(self, bench: Bench) -> bool:
        """Files byte for byte, and the old command line runs."""
        return bench.box.files(bench.name) == self.files and bench.box.argv(bench.name) == self.argv


def settled(bench: Bench, old: Old) -> str:
    """How the service came into a definite state.

    Raises:
        AssertionError: one rollback does not put it there.
    """
    bench.between = None
    promoted = bench.box.argv(bench.name) == PROMOTED
    if bench.records.plan() is None and promoted and bench.records.promotions():
        return "promoted"
    if bench.records.plan() is None and old.is_back(bench):
        return "old"
    bench.guard("undoing").rollback()
    assert old.is_back(bench), (bench.box.files(bench.name), bench.box.argv(bench.name))
    assert bench.records.plan() is None
    assert bench.records.promotions() == ()
    return "old after one rollback"
