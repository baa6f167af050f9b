"""Where the load comes from: this machine, or the server's own host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from spectune.assemble.clock import SystemClock
from spectune.assemble.host_kit import describe, load_average
from spectune.assemble.round_trip import connect_from_s, connect_s
from spectune.assemble.services import Site
from spectune.assemble.ways import Way, connected, way_to
from spectune.domain.deployment import Hardware
from spectune.domain.errors import InputError
from spectune.domain.hosts import Host
from spectune.domain.spec import ServiceSpec
from spectune.hosts.sudo import AskPassword
from spectune.load import shipping
from spectune.load.generator import HttpLoad
from spectune.load.on_host import LoadOnHost
from spectune.load.options import Options
from spectune.load.running import Run, Task, load
from spectune.provision import hardware

HERE, HOST = "here", "host"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the load comes from.

    Attributes:
        machine: what it is.
        load_average: of it, 1 minute.
        load: loads a server from there.
        way_s: seconds that a round trip to the server takes from there, where a network lies between.
        words: what lies between it and the server, for people; "" where nothing does.
        url: of the server as it is reached from there; None where it is the same as from here.
    """

    machine: Hardware
    load_average: Callable[[], float]
    load: Callable[[Task], Run] = load
    way_s: Callable[[], float] = lambda: 0.0
    words: str = ""
    url: str | None = None

    def generator(self, options: Options | None = None) -> HttpLoad:
        """A load generator whose load comes from there."""
        return HttpLoad(
            SystemClock(), self.load_average, self.machine.cores, options=options, load=self.load, way_s=self.way_s
        )


def here(way_s: Callable[[], float] = lambda: 0.0, words: str = "") -> Origin:
    """This machine."""
    machine = hardware.describe()
    return Origin(machine, hardware.load_average, way_s=way_s, words=words)


def for_service(service: ServiceSpec, site: Site | None, pythons: Sequence[str] = ()) -> Origin:
    """Where a campaign's load comes from; what it takes is brought to the host.

    Args:
        pythons: of the host, tried before others.

    Raises:
        InputError: there is no host to measure from, or nothing on it that runs the load generator.
        HostError: it can't be reached or written to.
    """
    if service.measure_from == HERE:
        return here() if site is None else here(site.way.round_trip_s, site.way.words)
    if site is None or not service.remote:
        raise InputError(
            f"service.measure_from is {service.measure_from}, and the service runs on this machine",
            "Leave it out, or name the host of a unit in service.remote.",
        )
    return _on(site.host, service.remote, service.measure_from, site.way, pythons)


@contextmanager
def for_url(url: str, measure_from: str, remote: str, ask: AskPassword | None) -> Iterator[tuple[str, Origin]]:
    """Where the load for a running server comes from, and the server's URL as it is reached from here.

    Args:
        url: as the host reaches it.
        remote: the host, as ssh knows it; "" where the load comes from here.

    Raises:
        InputError, HostError: see for_service.
    """
    if measure_from == HERE:
        yield url, here(lambda: connect_s(url) or 0.0)
        return
    parts = urlsplit(url)
    if not remote or not parts.hostname:
        raise InputError("--measure-from host needs the host: --remote NAME, as `ssh NAME` calls it")
    with connected(remote, ask) as host:
        way = way_to(host, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
        if way.forwards and parts.scheme == "https":
            raise InputError(
                f"https to {parts.hostname} of {remote} can't be followed from here",
                "Give the name that its certificate is for, or http.",
            )
        with way:
            yield way.url if way.forwards else url, _on(host, remote, measure_from, way, (), url)


def _on(
    host: Host, where: str, measure_from: str, way: Way, pythons: Sequence[str] = (), url: str | None = None
) -> Origin:
    python = measure_from.removeprefix(HOST).removeprefix(":")
    command = shipping.installed(host, where, python) if python else shipping.brought(host, where, pythons)
    url = url or way.direct
    there = connect_from_s(host, command[0], url)
    words = f"the load comes from {where} itself"
    words += "" if there is None else f", where a connection to the server takes {1000 * there:.2f} ms"
    words += f"; a round trip from here takes {1000 * way.round_trip_s():.1f} ms, which is not in the figures"
    return Origin(
        describe(host, where),
        partial(load_average, host),
        LoadOnHost(host, where, command, url),
        words=words,
        url=url,
    )
