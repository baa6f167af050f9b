"""Every flag that a version of SGLang's server accepts, in its own spellings.

The lists under data/ are recorded from the argument declarations of published versions; a new version is a new list.
What the installed server really accepts is told by its own --help (`parse_help`), where it can be run.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from spectune.engines.common.flags import by_spelling, help_flags, rows

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
    return tuple(Flag(**row) for row in rows(__package__, version))


def parse_help(text: str) -> frozenset[str]:
    """The flags that `--help` lists, without dashes, negations and other spellings included.

    Flags that SGLang hides from its help (old spellings) are not among them. Text that is no help gives no flags.
    """
    return help_flags(text)


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
    recorded = nearest(version, flags)
    found = by_spelling(load(recorded), flags, lambda name, negation: Flag(name, "unknown", negation=negation))
    return FlagTable(recorded, version, found)
