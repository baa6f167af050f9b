"""The journal of exactly one start of a unit, told by its invocation id: what the service's processes wrote and what
systemd says about it, over rotations of the journal's files.

journald looks up whose a line is when it reads it. Last words of a process that is gone by then carry no invocation
id, and these are the lines that tell why a server died. They are known by their stream, the connection to journald
that each start has of its own, or else by the entries around them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from spectune.domain.errors import CommandFailed, HostError
from spectune.domain.hosts import Host, Lines

_ASK_S = 20.0
_READ_S = 120.0
_INVOCATION = re.compile(r"[0-9a-f]{32}")
_MICROSECONDS = re.compile(r"[0-9]{1,18}")
_START_FIELDS = ("_SYSTEMD_INVOCATION_ID", "INVOCATION_ID", "USER_INVOCATION_ID")
_AROUND_S = 2.0
_UNREADABLE = "[spectune: an entry of the journal could not be read]"
# Entries are on disk a moment after they were written; only root may ask journald to hurry.
_SYNCED = 'journalctl --sync 2>/dev/null || sleep 0.5; exec "$@"'


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the journal.

    Attributes:
        text: the message; it may have several lines.
        unix: when journald received it, seconds since the epoch by the host's clock; 0 where that is not told.
        cursor: its place in the journal, for reading on behind it.
        invocation: the start that it belongs to or is about; empty where journald could not tell.
        stream: the connection to journald that it came over; empty where it came another way.
    """

    text: str
    unix: float = 0.0
    cursor: str = ""
    invocation: str = ""
    stream: str = ""


def invocation(host: Host, unit: str, *, user: bool = False) -> str:
    """The id of a unit's latest start; empty where it never ran or systemd has forgotten it.

    Args:
        user: the unit belongs to the login's own service manager.

    Raises:
        CommandFailed: systemctl failed.
    """
    argv = ["systemctl", *(["--user"] if user else []), "show", "-p", "InvocationID", "--value", "--", unit]
    return host.run(argv, timeout_s=_ASK_S).checked(f"systemctl show {unit}").text.strip()


def read(host: Host, unit: str, invocation: str, *, sudo: bool = False) -> str:
    """All that one start has written, as text.

    Without root the last half second may be missing, since only root may have journald write down what it holds.

    Args:
        sudo: read as root, where the login is in none of the groups that may read the journal.

    Raises:
        HostError: it can't be read.
    """
    sure = _entries(host, unit, _of_start(invocation), sudo)
    if not sure:
        return ""
    times = [entry.unix for entry in sure]
    span = [f"--since=@{min(times) - _AROUND_S:.6f}", f"--until=@{max(times) + _AROUND_S:.6f}"]
    streams = sorted({entry.stream for entry in sure} - {""})
    matches = [*_of_start(invocation), *_of_unit(unit), *(f"_STREAM_ID={stream}" for stream in streams)]
    return "".join(f"{entry.text}\n" for entry in select(_entries(host, unit, matches, sudo, *span), invocation))


def select(entries: Sequence[Entry], invocation: str) -> list[Entry]:
    """Those of one start; what journald could not place goes where its stream, or else the entry nearest in time is.

    Of starts that follow one another within milliseconds, one of which journald was too slow to place a single line of,
    the last words may be taken for the other's.
    """
    placed = [entry for entry in entries if entry.invocation]
    owners = {entry.stream: entry.invocation for entry in placed if entry.stream}

    def owner(entry: Entry) -> str:
        if entry.invocation or entry.stream in owners:
            return entry.invocation or owners[entry.stream]
        nearest = min(placed, key=lambda other: abs(other.unix - entry.unix), default=entry)
        return nearest.invocation

    return [entry for entry in entries if owner(entry) == invocation]


@contextmanager
def follow(host: Host, unit: str, invocation: str, *, sudo: bool = False, after: str = "") -> Iterator[Entries]:
    """The same, from its first entry on, and further as it is written, until the block is left.

    Args:
        after: cursor of the last entry seen, for going on after a lost connection.
    """
    if after:
        begin = f"--after-cursor={after}"
    else:
        first = _entries(host, unit, _of_start(invocation), sudo)[:1]
        begin = f"--since=@{first[0].unix - _AROUND_S:.6f}" if first else f"--since=-{_AROUND_S:.0f}s"
    matches = [*_of_start(invocation), *_of_unit(unit)]
    with host.follow([*_journalctl(matches), "--follow", "--no-tail", begin], sudo=sudo) as lines:
        yield Entries(lines, invocation)


class Entries:
    """Entries as they come; `stop` ends the iteration from any thread. Raises what Lines raises."""

    def __init__(self, lines: Lines, invocation: str) -> None:
        self._lines = lines
        self._invocation = invocation
        self._owners: dict[str, str] = {}
        self._latest = invocation

    def __iter__(self) -> Iterator[Entry]:
        for line in self._lines:
            if line.strip() and self._owner(entry := parse(line)) == self._invocation:
                yield entry

    def _owner(self, entry: Entry) -> str:
        if entry.invocation:
            self._latest = entry.invocation
            if entry.stream:
                self._owners[entry.stream] = entry.invocation
        return entry.invocation or self._owners.get(entry.stream, self._latest)

    def stop(self) -> None:
        """Ends the iteration."""
        self._lines.stop()


def parse(line: str) -> Entry:
    """Reads one line of `journalctl --output=json`. Never raises: what can't be read becomes an entry that says so.

    journald writes a message that is no UTF-8, or holds control characters, as a list of bytes; one that the entry has
    twice as a list of those; and one that is too long as null.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return Entry(_UNREADABLE)
    if not isinstance(fields, dict):
        return Entry(_UNREADABLE)
    time = str(fields.get("__REALTIME_TIMESTAMP", ""))
    unix = int(time) / 1e6 if _MICROSECONDS.fullmatch(time) else 0.0
    told = {name: value for name, value in fields.items() if isinstance(value, str)}
    # What a service manager says about a unit carries both: its own start's id, and that of the unit's.
    starts = (told.get(field, "") for field in reversed(_START_FIELDS))
    return Entry(
        _text(fields.get("MESSAGE", "")),
        unix,
        told.get("__CURSOR", ""),
        next(filter(None, starts), ""),
        told.get("_STREAM_ID", ""),
    )


def _text(value: object) -> str:
    several = isinstance(value, list) and any(not isinstance(part, int) for part in value)
    return "\n".join(map(_one, value)) if several and isinstance(value, list) else _one(value)


def _one(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, int) and 0 <= part < 256 for part in value):
        return bytes(value).decode(errors="replace")
    return _UNREADABLE


def _entries(host: Host, unit: str, matches: Sequence[str], sudo: bool, *options: str) -> list[Entry]:
    argv = ["/bin/sh", "-c", _SYNCED, "sh", *_journalctl(matches), *options]
    ran = host.run(argv, timeout_s=_READ_S, sudo=sudo)
    try:
        ran.checked(f"reading the journal of {unit}")
    except CommandFailed as error:
        advice = "The login must be root or in the group systemd-journal (or adm), or be allowed to use sudo."
        raise CommandFailed(error.message, advice) from error
    # Not splitlines: JSON text may hold characters that it takes for line ends.
    return [parse(line) for line in ran.text.split("\n") if line.strip()]


def _of_start(invocation: str) -> list[str]:
    if not _INVOCATION.fullmatch(invocation):
        raise HostError(f"{invocation!a} is not the id of a unit's start", "Has the unit been started?")
    return [f"{field}={invocation}" for field in _START_FIELDS]


def _of_unit(unit: str) -> list[str]:
    name = unit if "." in unit else f"{unit}.service"
    return [f"_SYSTEMD_UNIT={name}", f"_SYSTEMD_USER_UNIT={name}"]


def _journalctl(matches: Sequence[str]) -> list[str]:
    either = [word for match in matches for word in ("+", match)][1:]
    return ["journalctl", "--output=json", "--all", "--no-pager", "--quiet", *either]
