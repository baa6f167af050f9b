"""Another machine as a host, over the user's own OpenSSH client."""

from __future__ import annotations

from types import TracebackType

from spectune.domain.errors import HostBusy, HostError, HostLost, HostUnreachable
from spectune.domain.hosts import HostAddress
from spectune.domain.ports import Clock
from spectune.hosts.connection import Connection
from spectune.hosts.forward import Forward
from spectune.hosts.session import Session, spawn
from spectune.hosts.shell_host import ShellHost
from spectune.hosts.sudo import AskPassword
from spectune.hosts.wrapper import command_line

# sshd lets a connection have ten sessions unless told otherwise (MaxSessions).
_CHANNELS = 8
_SSHS_OWN = 255


class Ssh(ShellHost):
    """Commands over one shared connection, which is opened by the first of them and again when it was lost.

    ~/.ssh/config, agents, jump hosts, hardware keys and known_hosts count as they do for `ssh NAME`; ssh is not allowed
    to ask for anything. See the Host port. Used as a context manager it ends the connection.

    Args:
        address: where to.
        clock: must run in real time.
        ask: asks for a sudo password; None where nobody can be asked.
        channels: most commands at a time over the connection; below sshd's MaxSessions.
        alive_s: see Connection.
    """

    def __init__(
        self,
        address: HostAddress,
        clock: Clock,
        ask: AskPassword | None = None,
        *,
        channels: int = _CHANNELS,
        alive_s: int = 5,
    ) -> None:
        super().__init__(address.name, clock, ask, channels)
        self._connection = Connection(address, alive_s)

    def __enter__(self) -> Ssh:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection. Safe at any time; a later command connects again."""
        self._connection.close()

    def forward(self, remote_port: int) -> Forward:
        """A context manager: a port of this machine that leads to 127.0.0.1:`remote_port` of the host. See Forward."""
        return Forward(self._connection, remote_port, self._clock)

    def _open(self, argv: list[bytes], mark: str, opening: bytes) -> Session:
        return Session(spawn(self._connection.client(command_line(argv))), mark, self._clock, opening)

    def _never_started(self, session: Session) -> HostError:
        said = session.noise.decode(errors="replace").strip()
        if session.transport_code != _SSHS_OWN:
            said = "; ".join([*session.out.decode(errors="replace").splitlines(), *said.splitlines()][-4:])
            what = f"the login on {self.name} runs no commands (exit code {session.transport_code}): {said}"
            return HostError(
                what.removesuffix(": "),
                "Use a login whose shell is not restricted and whose key has no forced command.",
            )
        if "open refused by peer" in said:
            what = f"sshd on {self.name} carries no more commands at a time over one connection"
            return HostBusy(what, "Raise MaxSessions in its sshd_config.")
        # A dead connection is forgotten, so that the second try opens a new one; one that others use is kept.
        self._connection.is_alive()
        last = said.splitlines()[0] if said else "ssh ended"
        return HostUnreachable(f"the connection to {self.name} was lost: {last}", "Run the same command again.")

    def _broken(self, session: Session, what: str) -> HostError:
        advice = "It may have done its work or not: look before you repeat it."
        if self._connection.is_alive():
            return HostLost(f"{what} on {self.name} was killed together with its shell", advice)
        return HostLost(f"the connection to {self.name} was lost while {what} ran there", advice)
