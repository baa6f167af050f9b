"""Listeners: which process listens on a TCP port of this machine, read from /proc."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

from spectune.deploy.guard import MARK, process_table, read_process
from spectune.deploy.marks import environment
from spectune.domain.deployment import ListenerOwner
from spectune.domain.errors import HostError, InputError, PortTaken

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
UNKNOWN_PROGRAM = "an unknown program"
_LISTEN = "0A"
_LOOKS = 3

_TRIES = 100
"""Ports that the system is asked for before giving up on one that is small enough."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is to listen: the host as written, its addresses, and the port."""

    host: str
    port: int
    addresses: tuple[Address, ...]

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def place_of(url: str) -> Place:
    """The place that a base URL names.

    Raises:
        InputError: when it names none.
        HostError: when the host name is not known.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (KeyError, ValueError) as error:
        raise InputError(
            f"{url!r} is not the URL of a server", "Expected something like http://127.0.0.1:8080"
        ) from error
    if not host:
        raise InputError(f"{url!r} names no host", "Expected something like http://127.0.0.1:8080")
    return Place(host, port, _resolve(host))


def owner(place: Place, tree: Callable[[], Iterable[int]]) -> ListenerOwner:
    """Whose sockets listen there. One foreign listener among ours makes it FOREIGN.

    Args:
        tree: looks up the pids that are ours; asked only when something listens.
    """
    for _ in range(_LOOKS):
        inodes = _listening(place)
        if inodes is None:
            return ListenerOwner.UNKNOWN
        if not inodes:
            return ListenerOwner.NONE
        ours, all_seen = _sockets(tree())
        if inodes <= ours:
            return ListenerOwner.OURS
        if not all_seen:
            return ListenerOwner.UNKNOWN
        # A listener of ours that ends between the two looks would seem to be somebody else's.
        if (inodes - ours) & (_listening(place) or set()):
            return ListenerOwner.FOREIGN
    return ListenerOwner.UNKNOWN


def holder(place: Place) -> str | None:
    """Name and pid of the program that listens there: UNKNOWN_PROGRAM where it can't be seen, None without one."""
    inodes = _listening(place)
    if not inodes:
        return None
    for process in process_table().values():
        if not inodes.isdisjoint(_sockets([process.pid])[0]):
            mark = environment(process.pid).get(MARK.encode())
            left_behind = f", started by spectune as {mark.decode(errors='replace')}" if mark else ""
            return f"{process.name} (pid {process.pid}{left_behind})"
    return UNKNOWN_PROGRAM


def port_taken(place: Place) -> PortTaken:
    """The error that names who listens there."""
    return PortTaken(
        f"{place} is taken by {holder(place) or UNKNOWN_PROGRAM}",
        "Stop that program, or choose another port.",
    )


def check_free(place: Place) -> None:
    """Makes sure that a server could listen there.

    Raises:
        PortTaken: when another program has the port.
        HostError: when this machine has no such address, or the port needs privileges.
    """
    if holder(place) is not None:
        raise port_taken(place)
    failures = [failure for address in place.addresses if (failure := _bind_failure(address, place.port))]
    if any(failure.errno == errno.EADDRINUSE for failure in failures):
        if not _connections(place):
            raise port_taken(place)
    elif len(failures) == len(place.addresses):
        raise HostError(
            f"nothing can listen on {place}: {failures[0].strerror}", "Choose a host and port of this machine."
        ) from failures[0]


def is_free(place: Place) -> bool:
    """Whether nothing listens there."""
    return not _listening(place)


def free_port(host: str, most: int = 65535) -> int:
    """A port of the host that nothing uses at this moment.

    Args:
        most: largest port wanted; engines that derive further ports from theirs need room above it.

    Raises:
        HostError: when this machine has no such address, or no port that small is found.
    """
    address = _resolve(host)[0]
    try:
        for _ in range(_TRIES):
            with socket.socket(_family(address)) as probe:
                probe.bind((str(address), 0))
                port = int(probe.getsockname()[1])
            if port <= most:
                return port
        raise HostError(f"no free port up to {most} was found on {host}", "Name one in service.port.")
    except OSError as error:
        raise HostError(
            f"nothing can listen on {host}: {error.strerror}", "Choose an address of this machine."
        ) from error


def _resolve(host: str) -> tuple[Address, ...]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise HostError(f"host {host!r} is not known here: {error}", "Choose an address of this machine.") from error
    return tuple(dict.fromkeys(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found))


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


def _bind_failure(address: Address, port: int) -> OSError | None:
    try:
        with socket.socket(_family(address)) as probe:
            # As servers do: connections of the last server that are still winding down are no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((str(address), port))
    except OSError as error:
        return error
    return None


def _listening(place: Place) -> set[str] | None:
    """Inodes of the sockets that listen there, None where /proc does not tell."""
    rows = _rows(place)
    return None if rows is None else {inode for state, inode in rows if state == _LISTEN}


def _connections(place: Place) -> bool:
    """Whether connections of the port still exist. They may keep it from being bound for a minute after their server's
    end, depending on that server's socket options; only the next server can tell."""
    return any(state != _LISTEN for state, _ in _rows(place) or ())


def _rows(place: Place) -> list[tuple[str, str]] | None:
    """State and inode of the sockets with that port and a matching local address, None where /proc does not tell."""
    wanted = f":{place.port:04X}"
    found: list[tuple[str, str]] = []
    told = False
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                lines = file.readlines()[1:]
        except OSError:
            continue
        told = True
        for fields in (line.split() for line in lines):
            local = fields[1]
            if local.endswith(wanted) and _meets(_decode(local.removesuffix(wanted)), place.addresses):
                found.append((fields[3], fields[9]))
    return found if told else None


def _decode(text: str) -> Address:
    """An address as /proc/net prints it: 32-bit words in hexadecimal, each in the machine's byte order."""
    words = (int(text[start : start + 8], 16) for start in range(0, len(text), 8))
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    address = ipaddress.ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _meets(listener: Address, wanted: Iterable[Address]) -> bool:
    """Whether a listener's address covers one of the wanted; the IPv6 wildcard usually takes IPv4 connections too."""
    if listener.is_unspecified and listener.version == 6:
        return True
    return any(
        listener == address
        or (listener.is_unspecified and listener.version == address.version)
        or (address.is_unspecified and (address.version == 6 or listener.version == 4))
        for address in wanted
    )


def _sockets(pids: Iterable[int]) -> tuple[set[str], bool]:
    """Inodes of the sockets these processes hold open, and whether all their descriptors could be read."""
    inodes: set[str] = set()
    all_seen = True
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        try:
            descriptors = os.listdir(folder)
        except OSError:
            process = read_process(pid)
            all_seen = all_seen and not (process and process.alive)
            continue
        for descriptor in descriptors:
            try:
                target = os.readlink(f"{folder}/{descriptor}")
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    return inodes, all_seen
