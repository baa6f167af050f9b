"""Becoming root: not at all where the login is root, without a password where that works, else with one asked once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from spectune.domain.errors import SudoRefused
from spectune.domain.hosts import Ran

AskPassword = Callable[[str], str]
"""Gets a line to show, such as "sudo password on llm-two: ", and returns what was typed."""

Run = Callable[[list[str], bytes], Ran]


@dataclass(frozen=True, slots=True)
class Prefix:
    """What goes in front of a command, and what sudo must be told first."""

    argv: tuple[str, ...] = ()
    opening: bytes = field(default=b"", repr=False)


class Sudo:
    """Finds out once how to become root. A password lives in the memory of this object and nowhere else.

    Args:
        host: name for messages.
        ask: asks for the password; None where nobody can be asked.
    """

    def __init__(self, host: str, ask: AskPassword | None) -> None:
        self._host = host
        self._ask = ask
        self._prefix: Prefix | None = None
        self._lock = threading.Lock()

    def prefix(self, run: Run) -> Prefix:
        """How to become root.

        Args:
            run: runs a command, without sudo, with an input.

        Raises:
            SudoRefused: it can't be done.
        """
        with self._lock:
            if self._prefix is None:
                self._prefix = self._find(run)
            return self._prefix

    def _find(self, run: Run) -> Prefix:
        if run(["id", "-u"], b"").out.strip() == b"0":
            return Prefix()
        # -k: an earlier password must not count, or it would be asked for in the middle of a campaign.
        tried = run(["env", "LC_ALL=C", "sudo", "-n", "-k", "true"], b"")
        if tried.code == 0:
            return Prefix(("sudo", "-n", "--"))
        if tried.code == 127:
            raise SudoRefused(f"sudo is not installed on {self._host}", "Log in as root, or install sudo there.")
        if b"password is required" not in tried.err:
            raise SudoRefused(f"sudo on {self._host}: {_last(tried)}", "Allow this login to use sudo, or use root.")
        opening = self._asked(run).encode() + b"\n"
        tried = run(["env", "LC_ALL=C", "sudo", "-k", "-S", "-p", "", "true"], opening)
        if tried.code != 0:
            wrong = b"incorrect password" in tried.err or b"try again" in tried.err
            said = "the password is wrong" if wrong else _last(tried)
            raise SudoRefused(f"sudo on {self._host}: {said}", "Run the same command again.")
        return Prefix(("sudo", "-k", "-S", "-p", "", "--"), opening)

    def _asked(self, run: Run) -> str:
        if self._ask is None:
            user = run(["id", "-un"], b"").text.strip()
            raise SudoRefused(
                f"sudo on {self._host} wants a password, and nobody can be asked",
                "Run it on a terminal, where it is asked for once and kept nowhere; or allow it there without one, with"
                f" `sudo visudo -f /etc/sudoers.d/spectune` and this line: {user} ALL=(root) NOPASSWD: ALL",
            )
        try:
            return self._ask(f"sudo password on {self._host}: ")
        except EOFError as error:
            raise SudoRefused(f"sudo on {self._host} wants a password, and none was typed", "") from error


def _last(ran: Ran) -> str:
    lines = ran.err.decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("sudo: ") if lines else f"exit code {ran.code}"
