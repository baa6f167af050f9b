"""This machine as a host."""

from __future__ import annotations

from spectune.domain.errors import HostError, HostLost
from spectune.domain.ports import Clock
from spectune.hosts.session import Session, spawn
from spectune.hosts.shell_host import ShellHost
from spectune.hosts.sudo import AskPassword

_CHANNELS = 64


class Local(ShellHost):
    """Commands as children of this process, ended with it. See the Host port.

    Args:
        clock: must run in real time.
        ask: asks for a sudo password; None where nobody can be asked.
    """

    def __init__(self, clock: Clock, ask: AskPassword | None = None) -> None:
        super().__init__("this machine", clock, ask, _CHANNELS)

    def _open(self, argv: list[bytes], mark: str, opening: bytes) -> Session:
        return Session(spawn(argv), mark, self._clock, opening)

    def _never_started(self, session: Session) -> HostError:
        said = session.noise.decode(errors="replace").strip()
        return HostError(f"/bin/sh can't run commands on this machine: {said or session.transport_code}", "")

    def _broken(self, session: Session, what: str) -> HostError:
        return HostLost(f"{what} on this machine was killed together with its shell", "")
