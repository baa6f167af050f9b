"""Hosts: the machines that engines run on, and how commands reach them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from spectune.domain.errors import CommandFailed


@dataclass(frozen=True, slots=True)
class HostAddress:
    """Where a host is, as the ssh client is told. What is left out, the user's ssh configuration decides.

    Attributes:
        name: an alias of the ssh configuration, a host name or an IP address.
        user: login name; empty: as configured.
        port: TCP port of sshd; 0: as configured.
        config: path of an ssh configuration file; empty: the user's own.
    """

    name: str
    user: str = ""
    port: int = 0
    config: str = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that ran to its end.

    Attributes:
        code: exit code; 128 + n where signal n ended it; 127 where there is no such program, 126 where it can't be run.
        out, err: all it wrote.
        seconds: from the call to the end, the way to the host included.
    """

    code: int
    out: bytes
    err: bytes
    seconds: float

    @property
    def text(self) -> str:
        """The output as text; bytes that are no UTF-8 are replaced."""
        return self.out.decode(errors="replace")

    def checked(self, what: str) -> Ran:
        """This, where the command succeeded.

        Args:
            what: names the command and the host in the error, such as "systemctl start x.service on llm-two".

        Raises:
            CommandFailed: the exit code is not 0; the message ends with what the command wrote last.
        """
        if self.code == 0:
            return self
        said = (self.err.strip() or self.out.strip()).decode(errors="replace").splitlines()
        raise CommandFailed(f"{what} failed with code {self.code}" + (f": {said[-1]}" if said else ""))


class Lines(Iterator[str], Protocol):
    """Lines of a command that goes on running, without their line ends; bytes that are no UTF-8 are replaced.

    Ends when the command ends or `stop` is called.

    Raises:
        HostLost: while iterating, when the connection is lost.
        CommandFailed: while iterating, when the command ends by itself with a code other than 0.
    """

    def stop(self) -> None:
        """Ends the iteration, from any thread."""
        ...


class Host(Protocol):
    """A machine that commands can be run on. Usable from several threads.

    Everything here raises HostUnreachable (a branch of it tells why) when nothing was run, HostLost when the connection
    broke on the way and what was asked may have happened or not, and SudoRefused when `sudo` was asked for and denied.
    Paths and arguments are str; bytes in them that are no UTF-8 are written as Python's surrogateescape does.
    """

    def run(self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float, sudo: bool = False) -> Ran:
        """Runs a command to its end. No shell reads the words of `argv`.

        The command, with everything it started that stayed in its process group, is ended when the time is up, when
        the connection breaks and when spectune dies. Input that did not arrive whole never looks complete to it.

        Raises:
            CommandTimedOut: it was ended since it took longer than `timeout_s`.
        """
        ...

    def put(
        self, path: str, data: bytes, mode: int | None = None, owner: str | None = None, *, sudo: bool = False
    ) -> None:
        """Writes a file so that every reader, at every moment and after a power loss, finds the old or the new one.

        A symbolic link is followed. Mode and owner of a file that was there are kept unless told; a new file is 0644.

        Args:
            owner: "user" or "user:group".

        Raises:
            DiskFull, AccessDenied, HostError: the old file is untouched.
        """
        ...

    def get(self, path: str, *, sudo: bool = False) -> bytes | None:
        """A file's content; None where there is no such file.

        Raises:
            AccessDenied, HostError: there is something, but it can't be read.
        """
        ...

    def follow(self, argv: Sequence[str], *, sudo: bool = False) -> AbstractContextManager[Lines]:
        """Runs a command and hands on what it writes, line by line, until the block is left; then it is ended."""
        ...
