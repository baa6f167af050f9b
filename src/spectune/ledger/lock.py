"""One writer at a time, by a lock that the kernel drops when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spectune.domain.errors import LedgerError


@contextmanager
def only_writer(ledger: Path) -> Iterator[None]:
    """Holds `<ledger>.lock`. The file stays: deleting it would let two processes lock two files of one name.

    Raises:
        LedgerError: when another process holds it; names its pid.
        OSError: when the file can't be made.
    """
    lock = ledger.with_name(ledger.name + ".lock")
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
                "Wait until it ends, or name another ledger. `spectune list`, `show` and `report` work meanwhile.",
            ) from error
        with suppress(OSError):  # the pid serves messages only; a full disk must not forbid opening
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)
