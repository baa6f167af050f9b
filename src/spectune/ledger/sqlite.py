"""SQLite under the ledger: everything that only SQLite understands.

While a campaign writes, the journal is a write-ahead log: readers (list, report, the live page) never block the writer
and are never blocked, which a rollback journal can't give. With synchronous=EXTRA a commit returns after fsync, in
either journal mode. A writer that ends folds the log back into the file, so that a ledger at rest is one plain file: it
can be copied, and read where nothing may be written.
"""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, NullPool, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError

from spectune.domain.errors import LedgerError, SpectuneError
from spectune.ledger.lock import only_writer

_BUSY_S = 15.0
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FREE_SPACE = "Free some space there and run the same command again: all that was recorded before is kept."
_OTHER = "Another directory is named with --dir."
_DAMAGED = f"It is damaged or was made by another program: restore it from a copy. {_OTHER}"


class SqliteBackend:
    """A ledger in one file."""

    def __init__(self, path: Path, read_only: bool) -> None:
        self._path = path
        self._read_only = read_only
        self._logging = False
        self._closed = False
        self._engine = create_engine(
            "sqlite://",
            creator=self._connect,
            poolclass=NullPool if read_only else QueuePool,
            pool_reset_on_return=None,
        )
        event.listen(self._engine, "begin", self._begin)

    @property
    def name(self) -> str:
        return str(self._path)

    @property
    def engine(self) -> Engine:
        return self._engine

    def forbid_changes(self, table: str) -> tuple[str, ...]:
        return tuple(
            f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table}"
            f" BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
            for verb in ("UPDATE", "DELETE")
        )

    def explain(self, error: Exception) -> SpectuneError:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, OSError):
            return explain_os(cause, self._path)
        if isinstance(cause, UnicodeDecodeError):
            return LedgerError(f"the ledger {self._path} holds broken text: {cause}", _DAMAGED)
        if not isinstance(cause, sqlite3.Error):
            return LedgerError(f"the ledger {self._path} can't hold a value: {cause}", "This is a fault of spectune.")
        code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        match code:
            case sqlite3.SQLITE_FULL:
                return LedgerError(f"no space left for the ledger {self._path}", _FREE_SPACE)
            case sqlite3.SQLITE_IOERR if _full(self._path.parent):
                return LedgerError(f"no space left for the ledger {self._path}", _FREE_SPACE)
            case sqlite3.SQLITE_IOERR:
                detail = getattr(cause, "sqlite_errorname", "")
                return LedgerError(
                    f"the disk failed under the ledger {self._path}: {cause} ({detail})",
                    "Look at the kernel's log and at the file system, then run the same command again.",
                )
            case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
                return LedgerError(f"{self._path} is not a ledger that can be read: {cause}", _DAMAGED)
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return LedgerError(
                    f"another program keeps the ledger {self._path} locked",
                    "Close database browsers and backups that hold it, then run the same command again.",
                )
            case sqlite3.SQLITE_READONLY if self._read_only:
                return LedgerError(f"the ledger {self._path} was opened for reading only")
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                return LedgerError(
                    f"the ledger {self._path} can't be opened: {cause}",
                    "The file and its directory must belong to you or be writable for you.",
                )
            case _:
                return LedgerError(f"the ledger {self._path} can't be used: {cause}", _DAMAGED)

    def start_log(self) -> None:
        """Switches to the write-ahead log, which changes the file: only for a file that is known to be a ledger.

        Raises:
            LedgerError: when the file can't be written.
        """
        self._logging = True
        try:
            with closing(self._connect()) as raw:
                raw.execute("PRAGMA journal_mode=WAL")
        except sqlite3.Error as error:
            raise self.explain(error) from error

    def copy_to(self, other: SqliteBackend) -> None:
        """Copies everything, also while another process writes.

        Raises:
            LedgerError: when this can't be read or the other not written.
        """
        try:
            with closing(self._connect()) as source, closing(other._connect()) as target:
                source.backup(target)
        except sqlite3.Error as error:
            raise other.explain(error) from error

    def close(self) -> None:
        """Ends all connections. A writer leaves one plain file, unless a reader is still connected."""
        with _uninterrupted():
            self._engine.dispose()
            if self._logging:
                with suppress(sqlite3.Error), closing(self._connect(timeout=0)) as raw:
                    raw.execute("PRAGMA journal_mode=DELETE")
            self._closed = True

    def _connect(self, timeout: float = _BUSY_S) -> sqlite3.Connection:
        if self._closed:  # the lock is gone
            raise LedgerError(f"the ledger {self._path} was closed")
        # Readers open for writing too, where they may: after a kill, the first to come has to recover the journal.
        mode = "rw" if self._read_only else "rwc"
        uri = f"file:{quote(str(self._path))}?mode={mode}"
        # isolation_level=None: the driver's own transactions leave DDL out, so `_begin` opens them instead.
        raw = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)
        try:
            raw.execute("PRAGMA foreign_keys=ON")
            raw.execute("PRAGMA synchronous=EXTRA")
            raw.execute(f"PRAGMA query_only={'ON' if self._read_only else 'OFF'}")
        except BaseException:
            raw.close()
            raise
        return raw

    def _begin(self, connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN" if self._read_only else "BEGIN IMMEDIATE")


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Lets signals to end wait for the few milliseconds that it takes: one in the midst of closing would be told by
    SQLAlchemy with a traceback, and leave the log beside the ledger."""
    came: list[int] = []
    before = (
        {number: signal.signal(number, lambda got, _: came.append(got)) for number in _ENDING}
        if threading.current_thread() is threading.main_thread()  # no other may, and to no other do they come
        else {}
    )
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


@contextmanager
def sqlite_writer(path: Path) -> Iterator[SqliteBackend]:
    """A file to write to, made where it is missing, parents included. Nobody else writes to it meanwhile.

    Raises:
        LedgerError: when another spectune writes to it, it is a directory, or it can't be made or written.
    """
    path = Path(os.path.realpath(path))
    with ExitStack() as held:
        try:
            _make_directory(path.parent)
            _refuse_directory(path)
            if path.exists() and not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            held.enter_context(only_writer(path))
        except OSError as error:
            raise explain_os(error, path) from error
        backend = SqliteBackend(path, read_only=False)
        held.callback(backend.close)
        yield backend


@contextmanager
def sqlite_reader(path: Path) -> Iterator[SqliteBackend]:
    """A file to read, also while another process writes to it.

    Raises:
        LedgerError: when there is no such file or it can't be read.
    """
    path = Path(os.path.realpath(path))
    try:
        _refuse_directory(path)
        if not path.exists():
            raise LedgerError(f"there is no ledger {path}", f"Run a campaign first. {_OTHER}")
        if not os.access(path, os.R_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise explain_os(error, path) from error
    backend = SqliteBackend(path, read_only=True)
    try:
        yield backend
    finally:
        backend.close()


@contextmanager
def sqlite_copy(path: Path) -> Iterator[SqliteBackend]:
    """A copy of a ledger that may be written to and is gone afterwards.

    Raises:
        LedgerError: when it can't be read, or there is no room for a copy.
    """
    with ExitStack() as held, sqlite_reader(path) as original:
        try:
            folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="spectune-ledger-")))
        except OSError as error:
            raise explain_os(error, Path(tempfile.gettempdir())) from error
        copy = SqliteBackend(folder / path.name, read_only=False)
        held.callback(copy.close)
        original.copy_to(copy)
        yield copy


def explain_os(error: OSError, path: Path) -> LedgerError:
    """The error for people when the file system refuses."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return LedgerError(f"no space left for the ledger {path}", _FREE_SPACE)
        case errno.EACCES | errno.EPERM:
            advice = f"The file and its directory must belong to you or be writable for you. {_OTHER}"
            return LedgerError(f"no permission to open the ledger {path}", advice)
        case errno.EROFS:
            return LedgerError(f"the ledger {path} is on a read-only file system", _OTHER)
        case errno.EISDIR:
            return LedgerError(f"the ledger {path} is a directory", f"Move it away. {_OTHER}")
        case errno.ENOTDIR | errno.EEXIST:
            return LedgerError(f"a parent of the ledger {path} is not a directory", _OTHER)
        case _:
            return LedgerError(f"the ledger {path} can't be opened: {error.strerror or error}", _OTHER)


def _refuse_directory(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))


def _make_directory(directory: Path) -> None:
    """Makes a directory with its parents so that they outlast a power failure, as the events in them must."""
    if directory.is_dir():
        return
    _make_directory(directory.parent)
    directory.mkdir(exist_ok=True)
    fd = os.open(directory.parent, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _full(directory: Path) -> bool:
    try:
        return os.statvfs(directory).f_bavail == 0
    except OSError:
        return False
