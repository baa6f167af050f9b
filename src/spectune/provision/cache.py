"""The per-user cache: whole entries or none, and one process at a time at each of them."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from spectune.domain.errors import HostError

ROOT_VARIABLE = "SPECTUNE_CACHE"


@dataclass(frozen=True, slots=True)
class Cache:
    """A directory of finished entries. Everything in it can be deleted at any time and is made again when needed."""

    root: Path

    @classmethod
    def of_user(cls, env: Mapping[str, str]) -> Cache:
        """$SPECTUNE_CACHE, else $XDG_CACHE_HOME/spectune, else ~/.cache/spectune. Creates nothing.

        Raises:
            HostError: the user has no home directory and named no cache.
        """
        if own := env.get(ROOT_VARIABLE):
            return cls(Path(own).expanduser().absolute())
        xdg = env.get("XDG_CACHE_HOME", "")
        if os.path.isabs(xdg):  # the XDG specification says to ignore relative paths
            return cls(Path(xdg) / "spectune")
        home = env.get("HOME") or os.path.expanduser("~")
        if not os.path.isabs(home):
            raise HostError("this user has no home directory to keep a cache in", f"set {ROOT_VARIABLE} to a directory")
        return cls(Path(home) / ".cache" / "spectune")

    def path(self, *parts: str) -> Path:
        return self.root.joinpath(*parts)

    def directory(self, *parts: str) -> Path:
        """The same path, made to exist.

        Raises:
            HostError: it can't be created.
        """
        path = self.path(*parts)
        with told(path):
            path.mkdir(parents=True, exist_ok=True)
        return path

    @contextmanager
    def lock(self, name: str, waiting: Callable[[str], None]) -> Iterator[int]:
        """Holds a lock that ends with the process, however it ends. Waits while somebody else holds it.

        Args:
            waiting: told once, in words, when there is somebody to wait for.

        Yields:
            The lock's file descriptor. A child that inherits it holds the lock too, until it has ended: a builder
            that outlives a killed spectune keeps the next one from working in the same tree.

        Raises:
            HostError: the lock file can't be made, or the file system knows no locks.
        """
        path = self.directory("locks") / f"{name}.lock"
        with told(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            with told(path):
                if not _locked_at_once(descriptor):
                    waiting(f"Waiting for another spectune ({_holder(descriptor)}) that is making {name}")
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"process {os.getpid()}".encode(), 0)
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def install(self, *parts: str) -> Iterator[Path]:
        """Makes the entry `parts` appear whole, or not at all. Only under a lock that covers the entry: what earlier,
        killed installations of it left behind is removed first, and a former entry is replaced.

        Yields:
            An empty directory beside the entry, to be filled. Files directly in it are flushed to disk.

        Raises:
            HostError: disk full, not writable, and other trouble of the file system, also from inside the block.
        """
        target = self.path(*parts)
        parent = self.directory(*parts[:-1])
        with told(target):
            for left in parent.glob(f".{target.name}.*.tmp"):
                shutil.rmtree(left, ignore_errors=True)
            staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=parent))
            former = staging.with_name(staging.name.removesuffix(".tmp") + ".old.tmp")
            try:
                staging.chmod(0o755)
                yield staging
                _flush(staging)
                if target.exists():
                    os.rename(target, former)
                os.rename(staging, target)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
                shutil.rmtree(former, ignore_errors=True)

    def remove(self, *parts: str) -> None:
        """Deletes an entry or a work directory, as far as possible."""
        shutil.rmtree(self.path(*parts), ignore_errors=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Replaces a small file in one step; readers see the old content or the new one.

    Raises:
        HostError: it can't be written.
    """
    with told(path):
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Turns trouble of the file system at `path` into one clear error.

    Raises:
        HostError: instead of any OSError in the block.
    """
    try:
        yield
    except OSError as error:
        where = error.filename or path
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise HostError(
                f"the disk is full: {where}",
                f"free some space, or set {ROOT_VARIABLE} to a directory on another disk",
            ) from error
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}:
            raise HostError(
                f"cannot write {where}: {error.strerror}",
                f"make it writable for this user, or set {ROOT_VARIABLE} to a directory that is",
            ) from error
        raise HostError(
            f"trouble with {where}: {error.strerror or error}", f"set {ROOT_VARIABLE} to another directory"
        ) from error


def _locked_at_once(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 100, 0).decode(errors="replace") or "starting"


def _flush(directory: Path) -> None:
    for file in directory.iterdir():
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
