"""Records of a file, found once and read again when they are needed, so that large files never fill the memory."""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol

import orjson

from spectune.domain.errors import InputError

_HEAD = 64 * 1024
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_BOM = b"\xef\xbb\xbf"


class Records(Protocol):
    """The records of a file, numbered from 0."""

    @property
    def unit(self) -> str:
        """ "line" or "entry"."""
        ...

    @property
    def sha256(self) -> str:
        """Of the file; complete once `scan` has ended."""
        ...

    def scan(self) -> Iterator[tuple[int, int, bytes]]:
        """(position, number for people, record), once, in the file's order; empty lines are left out.

        The position is what `read` takes.
        """
        ...

    def read(self, position: int) -> bytes:
        """One record again.

        Raises:
            InputError: when the file can't be read any more, or has changed since it was scanned.
        """
        ...


class Lines:
    """The lines of a file; a position is where a line starts."""

    unit = "line"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = hashlib.sha256()
        self._scanned: tuple[int, int] | None = None

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def scan(self) -> Iterator[tuple[int, int, bytes]]:
        self._digest = hashlib.sha256()
        position = 0
        try:
            with self._path.open("rb") as file:
                self._scanned = _state(file)
                for number, line in enumerate(file, start=1):
                    self._digest.update(line)
                    record = line.removeprefix(_BOM).strip() if number == 1 else line.strip()
                    if record:
                        yield position, number, record
                    position += len(line)
        except OSError as error:
            raise unreadable(self._path, error) from error

    def read(self, position: int) -> bytes:
        try:
            with self._path.open("rb") as file:
                state = _state(file)
                file.seek(position)
                line = file.readline()
        except OSError as error:
            raise unreadable(self._path, error) from error
        if state != self._scanned:
            raise changed(str(self._path))
        return line.removeprefix(_BOM).strip() if position == 0 else line.strip()


class Entries:
    """The entries of one JSON array. The whole array is read at once; afterwards entries are kept as compact text."""

    unit = "entry"

    def __init__(self, array_of_json: list[object], sha256: str) -> None:
        self._blob = bytearray()
        self._ends = array("q")
        for entry in array_of_json:
            self._blob += orjson.dumps(entry)
            self._ends.append(len(self._blob))
        self._sha256 = sha256

    @property
    def sha256(self) -> str:
        return self._sha256

    def scan(self) -> Iterator[tuple[int, int, bytes]]:
        for position in range(len(self._ends)):
            yield position, position + 1, self.read(position)

    def read(self, position: int) -> bytes:
        start = self._ends[position - 1] if position else 0
        return bytes(self._blob[start : self._ends[position]])


def json_records(path: Path) -> Records:
    """The entries of a file that is one JSON array, else its lines.

    Raises:
        InputError: when the file can't be read.
    """
    if head(path).lstrip()[:1] == b"[":
        try:
            data = path.read_bytes()
        except OSError as error:
            raise unreadable(path, error) from error
        with suppress(orjson.JSONDecodeError):
            entries = orjson.loads(data.removeprefix(_BOM))
            return Entries(entries, hashlib.sha256(data).hexdigest())
    return Lines(path)


def head(path: Path) -> bytes:
    """The beginning of a file, without a byte order mark.

    Raises:
        InputError: when the file can't be read, or is compressed.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_HEAD)
    except OSError as error:
        raise unreadable(path, error) from error
    if data.startswith((_GZIP, _ZSTD)):
        raise InputError(f"workload.source: {path} is compressed", "Unpack it first (gunzip, zstd -d).")
    return data.removeprefix(_BOM)


def _state(file: BinaryIO) -> tuple[int, int]:
    """Size and time of change: what differs when somebody has written to the file."""
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"workload.source: cannot read {path}: {error.strerror or error}")


def changed(path: str) -> InputError:
    """The error for a file that is not what it was when it was scanned."""
    return InputError(f"workload.source: {path} has changed since it was opened", "Start again with the file as it is.")
