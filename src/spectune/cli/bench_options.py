"""What is written after the options of `spectune bench`, as values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from spectune.domain.errors import InputError
from spectune.domain.measurement import Slo
from spectune.domain.workload import Arrival, Level, LevelKind

DEFAULT_USERS = "1,4,16"

_BOUND = re.compile(r"(?P<what>\w+)\s*<=?\s*(?P<value>[0-9]*\.?[0-9]+)\s*(?P<unit>ms|s|)")
_PLACE = re.compile(r"here|host(:/[^\0\n]+)?")
_SLO_FORM = "It looks like ttft<0.5,tpot<0.05 in seconds; ms may be written: ttft<500ms."
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = {"host", "content-length", "content-type", "connection", "transfer-encoding"}


def levels(concurrency: str | None, rates: str | None, arrival: Arrival, burstiness: float | None) -> tuple[Level, ...]:
    """The levels that were asked for, closed loops first; 1, 4 and 16 users where neither kind was.

    Raises:
        InputError: a level is no number, or options contradict each other.
    """
    if burstiness is not None and arrival is not Arrival.GAMMA:
        raise InputError(f"--burstiness says nothing about {arrival.value} arrivals", "Add --arrival gamma.")
    if rates is None and arrival is Arrival.TRACE:
        rates = "1"
    if rates is None and arrival is not Arrival.POISSON:
        raise InputError(f"--arrival {arrival.value} without --rates", "Give requests per second: --rates 2,8")
    if concurrency is None and rates is None:
        concurrency = DEFAULT_USERS
    closed = [Level(users) for users in _users(concurrency)] if concurrency is not None else []
    burst = 1.0 if burstiness is None else burstiness
    opened = [Level(rate, LevelKind.RATE, arrival, burst) for rate in _rates(rates)] if rates is not None else []
    return tuple(dict.fromkeys(closed + opened))


def temperatures(text: str) -> tuple[float | None, ...]:
    """Temperatures; None is the server's own.

    Raises:
        InputError: one is no number from 0 to 5.
    """
    found: list[float | None] = []
    for word in _words(text):
        value = None if word == "default" else _number(word)
        if word != "default" and (value is None or not 0 <= value <= 5):
            raise InputError(f"--temperature: {word!r} is no temperature", "Numbers from 0 to 5, or 'default'.")
        found.append(value)
    return tuple(dict.fromkeys(found))


def slo(text: str | None) -> Slo | None:
    """Bounds that a request must keep to count as good; None where none are given.

    Raises:
        InputError: a bound can't be understood.
    """
    if text is None:
        return None
    bounds: dict[str, float] = {}
    for part in _words(text):
        found = _BOUND.fullmatch(part)
        if not found or found["what"] not in {"ttft", "tpot"}:
            raise InputError(f"--slo: {part!r} is no bound", _SLO_FORM)
        if found["what"] in bounds:
            raise InputError(f"--slo: {found['what']} is bounded twice", _SLO_FORM)
        bounds[found["what"]] = float(found["value"]) / (1000 if found["unit"] == "ms" else 1)
    return Slo(bounds.get("ttft"), bounds.get("tpot"))


def headers(lines: Iterable[str]) -> dict[str, str]:
    """Request headers from "Name: value".

    Raises:
        InputError: one is none, or is made by spectune itself. The value is not repeated: it may be a secret.
    """
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not _HEADER_NAME.fullmatch(name):
            raise InputError(f"--header: {name[:20]!r} is not a header", "It looks like --header 'X-Tenant: load-test'")
        if not value.isprintable() or not value.isascii():
            raise InputError(f"--header {name}: the value has characters that no header takes", "Use plain ASCII.")
        if name.lower() in _OWN_HEADERS:
            raise InputError(f"--header {name}: spectune makes this header itself", "Leave it out.")
        found[name] = value
    return found


def check_place(measure_from: str) -> None:
    """Raises InputError where it says no place that the load can come from."""
    if not _PLACE.fullmatch(measure_from):
        raise InputError(
            f"--measure-from: {measure_from!r} is no place", "'here', 'host', or 'host:/path/to/python' of the host."
        )


def origin(measure_from: str | None, remote: str) -> str:
    """Where the load comes from; here unless told otherwise.

    Raises:
        InputError: that is no place, or contradicts the host.
    """
    place = measure_from or "here"
    check_place(place)
    if (place == "here") != (not remote):
        raise InputError(
            "--measure-from host and --remote NAME go together", "The name is what `ssh NAME` calls the server's host."
        )
    return place


def _users(text: str) -> Iterable[int]:
    for word in _words(text):
        if not (word.isascii() and word.isdecimal()) or int(word) < 1:
            raise InputError(f"--concurrency: {word!r} is no number of requests", "Separate them by commas: 1,4,16")
        yield int(word)


def _rates(text: str) -> Iterable[float]:
    for word in _words(text):
        value = _number(word)
        if value is None or value <= 0:
            raise InputError(f"--rates: {word!r} is no number of requests per second", "Like this: --rates 0.5,2,8")
        yield value


def _words(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _number(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
