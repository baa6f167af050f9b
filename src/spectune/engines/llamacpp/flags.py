"""Every flag a release of llama-server accepts, in its own spellings.

The lists under data/ are recorded from `llama-server --help` with `parse_help`; a new release is a new list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from spectune.engines.common.flags import rows

RECORDED = "b11434"
"""The llama.cpp release whose flags are recorded."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One option of llama-server.

    Attributes:
        on: spellings that switch it on or precede its value, with their dashes, long ones first.
        off: spellings that switch it off.
        takes: number of values it takes.
        env: environment variable that sets it too, "" where there is none.
        removed: what replaced it, for options that llama-server recognises only to refuse them.
    """

    on: tuple[str, ...]
    off: tuple[str, ...] = ()
    takes: int = 0
    env: str = ""
    removed: str = ""

    @property
    def name(self) -> str:
        """The first long spelling, without dashes."""
        return self.on[0].lstrip("-")


_SHORT_OFF = frozenset({"-nkvo", "-nr", "-no-kvu", "-nocb", "-no-ag"})
_SPELLING = re.compile(r"(-{1,2}[A-Za-z][\w.-]*)(?:, *|\s+|$)")
_ENV = re.compile(r"\(env: (\w+)\)")
_REMOVED = re.compile(r"the argument has been removed\. use (?:the respective )?(.*?)(?: \(env:|$)")
_TWO_VALUES = re.compile(r"[A-Z]+ [A-Z]+")
_TEXT_COLUMN = 40


def parse_help(text: str) -> tuple[Flag, ...]:
    """Reads the flags from the output of `llama-server --help`. Text that is not help gives no flags."""
    blocks: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if re.match(r"-{1,2}[A-Za-z]", line):
            head, about = _split(line)
            blocks.append((head, [about]))
        elif line.startswith(" " * _TEXT_COLUMN) and blocks:
            blocks[-1][1].append(line.strip())
    return tuple(_flag(head, " ".join(part for part in about if part)) for head, about in blocks)


def _split(line: str) -> tuple[str, str]:
    """The flags of a help line and the text beside them; the text of long flags is on the next line."""
    if len(line) > _TEXT_COLUMN and line[_TEXT_COLUMN - 1] == " " and line[_TEXT_COLUMN] != " ":
        return line[:_TEXT_COLUMN], line[_TEXT_COLUMN:].strip()
    return line, ""


def _flag(head: str, about: str) -> Flag:
    spellings: list[str] = []
    at = 0
    while match := _SPELLING.match(head, at):
        spellings.append(match[1])
        at = match.end()
    hint = head[at:].strip()
    off = [s for s in spellings[1:] if s.startswith("--no-") or s in _SHORT_OFF]
    env, removed = _ENV.search(about), _REMOVED.search(about)
    return Flag(
        on=_long_first(s for s in spellings if s not in off),
        off=_long_first(off),
        takes=0 if not hint else 2 if _TWO_VALUES.fullmatch(hint) else 1,
        env=env[1] if env else "",
        removed=removed[1].strip() if removed else "",
    )


def _long_first(spellings: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(spellings, key=lambda spelling: not spelling.startswith("--")))


def dump(flags: tuple[Flag, ...]) -> str:
    """Flags as the text of a data file, one a line."""
    rows = (json.dumps({key: value for key, value in asdict(flag).items() if value}) for flag in flags)
    return "[\n" + ",\n".join(rows) + "\n]\n"


def load(release: str = RECORDED) -> tuple[Flag, ...]:
    """The recorded flags of a release."""
    return tuple(Flag(**row) for row in rows(__package__, release))
