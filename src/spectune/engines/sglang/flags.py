"""Every flag that a version of SGLang's server accepts, in its own spellings.

The lists under data/ are recorded from the argument declarations of published versions; a new version is a new list.
What the installed server really accepts is told by its own --help (`parse_help`), where it can be run.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

RECORDED = ("0.5.15", "0.5.23")
"""Versions whose flags are recorded, oldest first."""

Kind = Literal["switch", "integer", "number", "choice", "text", "unknown"]


@dataclass(frozen=True, slots=True)
class Flag:
    """One option of the server.

    Attributes:
        name: the long spelling without dashes.
        kind: what value it takes; "unknown" for a flag that only the installed server's --help names.
        many: takes several values, separated by spaces.
        optional_value: may be given without its value.
        choices: words allowed where kind is "choice".
        default: SGLang's own, None when it decides at start.
        aliases: other spellings of the same flag.
        field: key under which the server reports it.
        becomes: the flag that this old spelling sets, "" where it is no old spelling.
        deprecated: what SGLang says to write instead, where that is not one flag.
        negation: whether --no-<name> exists.
    """

    name: str
    kind: Kind
    many: bool = False
    optional_value: bool = False
    choices: tuple[str, ...] = ()
    default: bool | int | float | str | None = None
    aliases: tuple[str, ...] = ()
    field: str = ""
    becomes: str = ""
    deprecated: str = ""
    negation: bool = False

    @property
    def key(self) -> str:
        return self.field or self.name.replace("-", "_")


@functools.cache
def load(version: str) -> tuple[Flag, ...]:
    """The recorded flags of one of the RECORDED versions."""
    text = resources.files(__package__).joinpath("data", f"flags-{version}.json").read_text("utf-8")
    rows: list[dict[str, Any]] = json.loads(text)
    lists = ("choices", "aliases")
    return tuple(Flag(**{**row, **{key: tuple(row[key]) for key in lists if key in row}}) for row in rows)


_OPTION_LINE = re.compile(r"^ {2,4}(?:-\w(?: \S+)?, )?(--[a-z0-9].*)$", re.MULTILINE)
_USAGE = re.compile(r"\[(--[a-z0-9][\w-]*)(?: \|(?: (--[a-z0-9][\w-]*)))?")
_SPELLING = re.compile(r"(?:^|, )--([a-z0-9][\w-]*)")


def parse_help(text: str) -> frozenset[str]:
    """The flags that `--help` lists, without dashes, negations and other spellings included.

    Flags that SGLang hides from its help (old spellings) are not among them. Text that is no help gives no flags.
    """
    found = {spelling.lstrip("-") for usage in _USAGE.findall(text) for spelling in usage if spelling}
    for line in _OPTION_LINE.findall(text):
        found.update(_SPELLING.findall(line))
    return frozenset(found - {"help"})


def nearest(version: str | None, flags: frozenset[str] | None = None) -> str:
    """The recorded version closest to an installed one.

    Args:
        version: of the installed server, None when it is not known.
        flags: flags of the installed server, used when its version is not known.
    """
    wanted = _numbers(version or "")
    if wanted is not None:
        return min(RECORDED, key=lambda known: (_distance(_numbers(known) or wanted, wanted), RECORDED.index(known)))
    if flags:
        return max(reversed(RECORDED), key=lambda known: len({flag.name for flag in load(known)} & flags))
    return RECORDED[-1]


def older(version: str | None, than: str) -> bool:
    """Whether a version is known to be older than another; False where it is not known."""
    left, right = _numbers(version or ""), _numbers(than)
    return left is not None and right is not None and left < right


def _numbers(version: str) -> tuple[int, ...] | None:
    match = re.match(r"v?(\d{1,6})\.(\d{1,6})(?:\.(?:post)?(\d{1,6}))?", version)
    return tuple(int(part or 0) for part in match.groups()) if match else None


def _distance(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    weights = (10**12, 10**6, 1)
    return abs(sum((x - y) * weight for x, y, weight in zip(a, b, weights, strict=True)))


@dataclass(frozen=True, slots=True)
class FlagTable:
    """The flags of one installed server.

    Attributes:
        recorded: version whose recorded list is the base.
        version: of the installed server, as far as is known.
        flags: any accepted spelling without dashes, negations excluded -> flag.
    """

    recorded: str
    version: str | None
    flags: Mapping[str, Flag]

    @property
    def label(self) -> str:
        return f"SGLang {self.version}" if self.version else f"SGLang (as {self.recorded})"

    def canonical(self, spelling: str) -> Flag | None:
        """The flag that a spelling sets, old spellings resolved; None where the server has no such flag."""
        flag = self.flags.get(spelling)
        return self.flags.get(flag.becomes, flag) if flag else None

    def has(self, name: str) -> bool:
        return name in self.flags


def table(flags: frozenset[str] | None = None, version: str | None = None) -> FlagTable:
    """The flags of an installed server: the recorded list of the nearest version, cut to and completed by `flags`."""
    flags = flags or None  # a help that could not be read says nothing
    recorded = nearest(version, flags)
    known: dict[str, Flag] = {}
    for flag in load(recorded):
        spellings = (flag.name, *flag.aliases)
        if flags is None or not flags.isdisjoint(spellings):
            known |= dict.fromkeys(spellings, flag)
    for spelling in sorted((flags or frozenset()) - known.keys()):
        if not (spelling.startswith("no-") and spelling.removeprefix("no-") in known):
            known[spelling] = Flag(spelling, "unknown")
    return FlagTable(recorded, version, known)
