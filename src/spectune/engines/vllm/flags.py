"""Every flag that a version of vLLM's server accepts, in its own spellings.

The list under data/ is recorded from the argument declarations of a published version. For other versions it is cut by
what is known to be younger, and best replaced by what the installed server's own --help says (`parse_help`).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

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
    text = resources.files(__package__).joinpath("data", f"flags-{RECORDED}.json").read_text("utf-8")
    rows: list[dict[str, Any]] = json.loads(text)
    lists = ("choices", "aliases")
    return tuple(Flag(**{**row, **{key: tuple(row[key]) for key in lists if key in row}}) for row in rows)


_USAGE = re.compile(r"\[(--?[a-zA-Z0-9][\w-]*)(?:,? (?:\| )?(--?[a-zA-Z0-9][\w-]*))*")
_OPTION_LINE = re.compile(r"^ {2,4}(--?[a-zA-Z0-9][^\n]*)$", re.MULTILINE)
_SPELLING = re.compile(r"(?<![\w-])--([a-z0-9][\w-]*)")
_PROOF = frozenset({"max-num-seqs", "max-model-len"})
"""Flags of every version. `vllm serve --help` lists groups and examples instead; `--help=all` lists flags."""


def parse_help(text: str) -> frozenset[str]:
    """The flags that --help lists, without dashes, negations included; short spellings are not.

    Text that does not list the server's flags gives none, the overview that `vllm serve --help` prints among it: ask
    for --help=all.
    """
    found = {spelling for usage in _USAGE.finditer(text) for spelling in _SPELLING.findall(usage[0])}
    for line in _OPTION_LINE.findall(text):
        spellings, _, _ = line.partition("   ")
        found.update(_SPELLING.findall(spellings))
    found -= {"help"}
    return frozenset(found) if found >= _PROOF else frozenset()


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
    wanted = release(version)
    known: dict[str, Flag] = {}
    for flag in load():
        since = release(flag.since)
        young = since is not None and wanted is not None and wanted < since
        if not young if flags is None else not flags.isdisjoint((flag.name, *flag.aliases)):
            known |= dict.fromkeys((flag.name, *flag.aliases), flag)
    for spelling in sorted((flags or frozenset()) - known.keys()):
        if not (spelling.startswith("no-") and spelling.removeprefix("no-") in known):
            known[spelling] = Flag(spelling, "unknown", negation=f"no-{spelling}" in (flags or ()))
    return FlagTable(version, known)
