"""One writer at a time, by a lock that the kernel drops when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spectune.domain.errors import LedgerError

_LOCKS = Path("/proc/locks")


@contextmanager
def only_writer(ledger: Path) -> Iterator[None]:
    """Holds `<ledger>.lock`. The file stays: deleting it would let two processes lock two files of one name.

    Raises:
        LedgerError: when another process holds it; names its pid.
        OSError: when the file can't be made.
    """
    lock = _lock_of(ledger)
    # Not inheritable (Python's default), so that a server started meanwhile does not keep the lock alive.
    fd = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
            who = f" (pid {pid})" if pid.isdigit() else ""
            raise LedgerError(
                f"another spectune{who} is using this ledger: {ledger}",
                "Wait until it ends, or name another directory with --dir. `spectune list`, `show` and `report` work "
                "meanwhile.",
            ) from error
        with suppress(OSError):  # the pid serves messages only; a full disk must not forbid opening
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


def is_held(ledger: Path, locks: Path = _LOCKS) -> bool:
    """Whether a process of this machine writes to the ledger. The kernel's list is read, as even a moment's lock of
    one's own would turn a writer away that starts at that moment.

    Args:
        locks: the kernel's list of locks: "1: FLOCK  ADVISORY  WRITE 4711 08:01:9178 0 EOF", the file by its inode.
    """
    try:
        inode = str(_lock_of(ledger).stat().st_ino)
        lines = locks.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return False
    words = [line.split() for line in lines]
    return any(len(w) >= 6 and w[1:4] == ["FLOCK", "ADVISORY", "WRITE"] and w[5].split(":")[-1] == inode for w in words)


def _lock_of(ledger: Path) -> Path:
    ledger = Path(os.path.realpath(ledger))
    return ledger.with_name(ledger.name + ".lock")
