"""How a host and the endpoint on it are reached: here, directly, or through ssh."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from spectune.assemble.clock import SystemClock
from spectune.assemble.round_trip import connect_s
from spectune.deploy.pages import Pages
from spectune.domain.deployment import Launch, Page
from spectune.domain.errors import HostLost
from spectune.domain.hosts import Host, HostAddress
from spectune.hosts.forward import Forward
from spectune.hosts.local import Local
from spectune.hosts.ssh import Ssh
from spectune.hosts.sudo import AskPassword
from spectune.systemd.deployer import PageSource

SSH_CONFIG = "SPECTUNE_SSH_CONFIG"
"""Names an ssh configuration file to use in place of the user's own."""

HERE = "this machine"
"""Where units are that are not on another host."""


class Way:
    """How the service's endpoint is reached from here; a context manager.

    Args:
        ssh: where requests go through ssh; None where the endpoint is reached directly.
        url: the endpoint as it is reached directly.
        port: of the endpoint on its own host.
    """

    def __init__(self, ssh: Ssh | None, url: str, port: int) -> None:
        self._ssh = ssh
        self._direct = url
        self._port = port
        self._forward: Forward | None = None

    def __enter__(self) -> Way:
        self.mend()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._forward is not None:
            self._forward.__exit__(None, None, None)

    @property
    def url(self) -> str:
        """Base URL to use from here."""
        return self._direct if self._forward is None else f"http://127.0.0.1:{self._forward.port}"

    @property
    def forwards(self) -> bool:
        """Whether it leads through ssh."""
        return self._ssh is not None

    @property
    def direct(self) -> str:
        """Base URL on the endpoint's own host."""
        return self._direct

    def round_trip_s(self) -> float:
        """Seconds that a round trip to the endpoint takes from here; 0 where it can't be told, or stays here."""
        if self._forward is not None:
            return self._forward.latency_s
        return connect_s(self._direct) or 0.0

    @property
    def words(self) -> str:
        """What the way adds to each request, for people; "" where it adds nothing."""
        return "" if self._forward is None else self._forward.words

    @property
    def where(self) -> str:
        return HERE if self._ssh is None else self._ssh.name

    @property
    def lost(self) -> bool:
        return self._forward is not None and not self._forward.is_alive()

    def mend(self) -> None:
        """Opens the way again where its connection was lost. Raises HostError."""
        if self._ssh is None or (self._forward is not None and not self.lost):
            return
        if self._forward is not None:
            self._forward.__exit__(None, None, None)
        self._forward = self._ssh.forward(self._port).__enter__()

    def fetch(self, path: str, timeout_s: float, headers: Mapping[str, str] = MappingProxyType({})) -> Page:
        """One page, over a way that is mended first."""
        self.mend()
        pages = Pages(self.url, SystemClock(), headers)
        try:
            return pages.get(path, timeout_s)
        finally:
            pages.close()

    @contextmanager
    def pages(self, launch: Launch) -> Iterator[PageSource]:
        """Pages of a launch's endpoint, while the way holds."""
        pages = Pages(self.url, SystemClock(), launch.headers)
        try:
            yield _PagesOverWay(pages, self)
        finally:
            pages.close()


@dataclass(frozen=True, slots=True)
class _PagesOverWay:
    """Tells a lost connection from a dead server. See PageSource."""

    source: Pages
    way: Way

    def get(self, path: str, timeout_s: float) -> Page:
        return self._checked({path: self.source.get(path, timeout_s)})[path]

    def get_all(self, paths: Iterable[str]) -> Mapping[str, Page]:
        return self._checked(self.source.get_all(paths))

    def _checked(self, pages: Mapping[str, Page]) -> Mapping[str, Page]:
        if any(not page.status for page in pages.values()) and self.way.lost:
            raise HostLost(f"the connection to {self.way.where} was lost", "The same command goes on from here.")
        return pages


@contextmanager
def connected(remote: str, ask: AskPassword | None) -> Iterator[Host]:
    """A host by the name that ssh knows it by; "" is this machine."""
    if not remote:
        yield Local(SystemClock(), ask)
        return
    address = HostAddress(remote, config=os.environ.get(SSH_CONFIG, ""))
    with Ssh(address, SystemClock(), ask) as ssh:
        yield ssh


def way_to(host: Host, address: str, port: int) -> Way:
    """Directly where the address means something here, else through ssh."""
    through = host if isinstance(host, Ssh) and _only_from_itself(address) else None
    direct = "127.0.0.1" if address in {"0.0.0.0", "::", ""} else address
    return Way(through, f"http://[{direct}]:{port}" if ":" in direct else f"http://{direct}:{port}", port)


def _only_from_itself(address: str) -> bool:
    """Whether an address of the host means nothing here."""
    if address in {"", "localhost"}:
        return True
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    return ip.is_loopback or ip.is_unspecified
