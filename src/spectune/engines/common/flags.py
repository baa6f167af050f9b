"""Flags of a server: the list recorded for a version, and what the installed one lists in its own --help."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import resources
from typing import Any, Protocol, TypeVar

from spectune.domain.knobs import Knob, KnobKind, KnobValue


class Option(Protocol):
    """A flag of a server that argparse reads.

    Attributes:
        name: the long spelling without dashes.
        kind: a KnobKind's word, or another for which any text will do.
        many: takes several values, separated by spaces.
        choices: words allowed where kind is "choice".
        default: the server's own, None when it decides at start.
        aliases: other spellings of the same flag.
        negation: whether --no-<name> exists.
    """

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def many(self) -> bool: ...
    @property
    def choices(self) -> tuple[str, ...]: ...
    @property
    def default(self) -> KnobValue | None: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...
    @property
    def negation(self) -> bool: ...


F = TypeVar("F", bound=Option)
Bounds = tuple[float | None, float | None, str]
"""Lowest and highest value, and one line for people."""

_USAGE = re.compile(r"\[(--?[a-zA-Z0-9][\w-]*)(?:,? (?:\| )?(--?[a-zA-Z0-9][\w-]*))*")
_OPTION_LINE = re.compile(r"^ {2,4}(-[^\n]*)$", re.MULTILINE)
_SPELLING = re.compile(r"(?<![\w-])--([a-z0-9][\w-]*)")
_KINDS = {kind.value: kind for kind in KnobKind}


def rows(package: str, version: str) -> list[dict[str, Any]]:
    """The flags that a package has recorded of a version, as keyword arguments of its own class."""
    text = resources.files(package).joinpath("data", f"flags-{version}.json").read_text("utf-8")
    listed: list[dict[str, Any]] = json.loads(text)
    return [{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()} for row in listed]


def help_flags(text: str) -> frozenset[str]:
    """The flags that argparse's --help lists, without dashes, negations and other long spellings included."""
    found = {spelling for usage in _USAGE.finditer(text) for spelling in _SPELLING.findall(usage[0])}
    for line in _OPTION_LINE.findall(text):
        spellings, _, _ = line.partition("  ")
        found.update(_SPELLING.findall(spellings))
    return frozenset(found - {"help"})


def by_spelling(known: Iterable[F], listed: frozenset[str] | None, other: Callable[[str, bool], F]) -> dict[str, F]:
    """Spelling without dashes -> flag, negations excluded.

    Args:
        known: recorded flags.
        listed: those of the installed server, to which the recorded ones are cut; None or none takes all.
        other: makes a flag that is listed and not recorded, from its name and whether it has a negation.
    """
    found: dict[str, F] = {}
    for flag in known:
        spellings = (flag.name, *flag.aliases)
        if not listed or not listed.isdisjoint(spellings):
            found |= dict.fromkeys(spellings, flag)
    listed = listed or frozenset()
    spelt = found.keys() | listed
    for spelling in sorted(listed - found.keys()):
        if not (spelling.startswith("no-") and spelling.removeprefix("no-") in spelt):
            found[spelling] = other(spelling, f"no-{spelling}" in listed)
    return found


def arguments(flag: Option, value: KnobValue) -> tuple[str, ...]:
    """A flag and its value as command line arguments."""
    if isinstance(value, bool):
        if value:
            return (f"--{flag.name}",)
        return (f"--no-{flag.name}",) if flag.negation else ()
    if flag.many:
        return (f"--{flag.name}", *str(value).split())
    return (f"--{flag.name}", str(value))


def knob_of(flag: Option, bounds: Mapping[str, Bounds]) -> Knob:
    """A flag as a knob. A default out of bounds stands for "not set", and may not be given."""
    low, high, about = bounds.get(flag.name, (None, None, ""))
    kind = KnobKind.TEXT if flag.many else _KINDS.get(flag.kind, KnobKind.TEXT)
    knob = Knob(flag.name, kind, flag.default, low, high, flag.choices, aliases=flag.aliases, about=about)
    default = flag.default
    if isinstance(default, bool) or not isinstance(default, (int, float)):
        return knob
    possible = (low is None or default >= low) and (high is None or default <= high)
    return knob if possible else replace(knob, default=None)
