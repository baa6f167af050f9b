"""Every flag that a version of vLLM's server accepts, in its own spellings.

The list under data/ is recorded from the argument declarations of a published version. For other versions it is cut by
what is known to be younger, and best replaced by what the installed server's own --help says (`parse_help`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from spectune.engines.common.flags import by_spelling, help_flags, rows

RECORDED = "0.32.0"
"""The version whose flags are recorded."""

Kind = Literal["switch", "integer", "number", "choice", "text", "json", "unknown"]
Release = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Flag:
    """One option of the server.

    Attributes:
        name: the long spelling without dashes.
        kind: what value it takes; "json" also takes its keys one by one ("compilation-config.cudagraph_mode");
            "unknown" for a flag that only the installed server's --help names.
        many: takes several values, separated by spaces.
        auto: a number, or "auto".
        choices: words allowed where kind is "choice".
        default: vLLM's own, None when it decides at start.
        aliases: other spellings of the same flag, the short ones among them.
        negation: whether --no-<name> exists.
        since: first release that has it, as far as is known ("" where it is not).
    """

    name: str
    kind: Kind
    many: bool = False
    auto: bool = False
    choices: tuple[str, ...] = ()
    default: bool | int | float | str | None = None
    aliases: tuple[str, ...] = ()
    negation: bool = False
    since: str = ""

    @property
    def key(self) -> str:
        """The name under which the server reports it."""
        return self.name.replace("-", "_")


@functools.cache
def load() -> tuple[Flag, ...]:
    """The recorded flags."""
    return tuple(Flag(**row) for row in rows(__package__, RECORDED))


_PROOF = frozenset({"max-num-seqs", "max-model-len"})
"""Flags of every version. `vllm serve --help` lists groups and examples instead; `--help=all` lists flags."""


def parse_help(text: str) -> frozenset[str]:
    """The flags that --help lists, without dashes, negations included; short spellings are not.

    Text that does not list the server's flags gives none, the overview that `vllm serve --help` prints among it: ask
    for --help=all.
    """
    found = help_flags(text)
    return found if found >= _PROOF else frozenset()


def release(version: str | None) -> Release | None:
    """Major and minor number of a version ("0.26.1+cu130" is (0, 26)); None where there is none."""
    match = re.match(r"v?(\d{1,6})\.(\d{1,6})", version or "")
    return (int(match[1]), int(match[2])) if match else None


_RECORDED_RELEASE: Release = (0, 32)


@dataclass(frozen=True, slots=True)
class FlagTable:
    """The flags of one installed server.

    Attributes:
        version: of the installed server, as far as is known.
        flags: any accepted spelling without dashes, negations excluded -> flag.
    """

    version: str | None
    flags: Mapping[str, Flag]

    @property
    def label(self) -> str:
        return f"vLLM {self.version}" if self.version else f"vLLM (as {RECORDED})"

    @property
    def release(self) -> Release:
        """Major and minor number, the recorded version's where it is not known."""
        return release(self.version) or _RECORDED_RELEASE

    def has(self, name: str) -> bool:
        return name in self.flags


def table(flags: frozenset[str] | None = None, version: str | None = None) -> FlagTable:
    """The flags of an installed server: the recorded list, cut to and completed by `flags`; without them, by what is
    known of the version."""
    recorded = load() if flags else [flag for flag in load() if not _younger(flag, version)]
    found = by_spelling(recorded, flags, lambda name, negation: Flag(name, "unknown", negation=negation))
    return FlagTable(version, found)


def _younger(flag: Flag, version: str | None) -> bool:
    since, wanted = release(flag.since), release(version)
    return since is not None and wanted is not None and wanted < since
