"""Logs: the output of one start of a server, kept in a file and read within bounds."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from pathlib import Path

from spectune.domain.errors import HostError

READ_LIMIT = 4 << 20
TAIL_LIMIT = 64 << 10
"""A cause is named from it: a traceback through a serving engine alone fills several kilobytes."""

_TAIL_LINES = 500
_RESERVE = 64 << 10
_NAME_LENGTH = 120


class LogFile:
    """A new, empty log. It is read through its descriptor, so that removing the file does not lose it."""

    def __init__(self, folder: Path, mark: str) -> None:
        """
        Raises:
            HostError: when the folder can't be written, or its disk is full.
        """
        self.path = folder / _file_name(mark)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
            self.descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise _unwritable(folder, error) from error
        try:
            # Opening succeeds on a full disk; only asking for room tells.
            os.posix_fallocate(self.descriptor, 0, _RESERVE)
            os.ftruncate(self.descriptor, 0)
        except OSError as error:
            self.close()
            if error.errno not in {errno.EINVAL, errno.EOPNOTSUPP}:
                raise _unwritable(folder, error) from error

    def close(self) -> None:
        """Closes the descriptor; a second time does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def size(self) -> int:
        """Bytes written so far."""
        return os.fstat(self.descriptor).st_size

    def text(self, limit: int = READ_LIMIT) -> str:
        """The log from its first line; of a log of more than `limit` bytes its head and its tail, and between them a
        line that says how much was left out."""
        size = self.size()
        if size <= limit:
            return self._read(0, size)
        head = self._read(0, limit // 2)
        tail = self._read(size - limit // 2, limit // 2)
        head = head[: head.rfind("\n") + 1] or head + "\n"
        tail = tail[tail.find("\n") + 1 :]
        return f"{head}[spectune: about {size - limit} bytes of this log left out]\n{tail}"

    def tail(self) -> str:
        """The last lines."""
        size = self.size()
        text = self._read(max(0, size - TAIL_LIMIT), TAIL_LIMIT)
        return "\n".join(text.splitlines()[-_TAIL_LINES:])

    def disk_full(self) -> bool:
        """Whether the log could not grow any more."""
        room = os.fstatvfs(self.descriptor)
        return (room.f_bfree if os.geteuid() == 0 else room.f_bavail) == 0 and room.f_blocks > 0

    def _read(self, offset: int, length: int) -> str:
        parts: list[bytes] = []
        while length > 0 and (part := os.pread(self.descriptor, length, offset)):
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return b"".join(parts).decode(errors="replace")


def disk_full(folder: Path) -> HostError:
    """The error for a disk without room for logs."""
    return HostError(f"the disk of {folder} is full", "Free some space, then run the same command again.")


def _unwritable(folder: Path, error: OSError) -> HostError:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return disk_full(folder)
    return HostError(f"can't write server logs to {folder}: {error.strerror}", "Choose a folder that you may write to.")


def _file_name(mark: str) -> str:
    """The mark, where it makes a file name as it is; else a readable part of it and a hash."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", mark)[:_NAME_LENGTH].lstrip(".")
    if plain == mark:
        return f"{mark}.log"
    return f"{plain}-{hashlib.sha256(mark.encode()).hexdigest()[:8]}.log"
