"""Variables of a shell script, and the words that a shell makes of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from spectune.domain.errors import InputError
from spectune.units.shell import ASSIGNMENT
from spectune.units.text import Piece, Word

_SEPARATORS = " \t\n"
_SEPARATED = re.compile(rf"[^{_SEPARATORS}]+")
_GLOB = re.compile(r"[*?\[]")
_NAME = re.compile(r"[A-Za-z_]\w*")
_SET_BY_SHELLS = (
    "PWD OLDPWD PPID IFS OPTIND OPTARG SHLVL HOSTNAME HOSTTYPE MACHTYPE OSTYPE RANDOM SRANDOM SECONDS LINENO UID EUID"
    " GROUPS PS1 PS4 _ EPOCHSECONDS EPOCHREALTIME COLUMNS LINES DIRSTACK PIPESTATUS FUNCNAME REPLY"
)
_OWN = frozenset(_SET_BY_SHELLS.split())


@dataclass(slots=True)
class Variables:
    """What is known of a shell's variables at one point of a script.

    Attributes:
        values: variables with known values.
        unknown: variables that are set, but to what only the host knows.
        complete: whether a variable that is in neither is certainly empty.
    """

    values: dict[str, str] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    complete: bool = False


def expand(word: Word, variables: Variables) -> tuple[str, ...]:
    """The words that a shell makes of one.

    Raises:
        InputError: that can't be told from the script: an unknown variable or a substitution that is not quoted, or a
            pattern for file names.
    """
    fields: list[str] = [""]
    present = not word.pieces or any(piece.quote for piece in word.pieces)
    for piece in word.pieces:
        if not piece.variable and not piece.substituted:
            fields[-1] += piece.text
            present = True
            continue
        value = _value(piece, variables)
        if value is None:
            if not piece.quote:
                raise InputError(f"{piece.text} is not quoted and known on the host only, so it may be several words")
            value = piece.text
        if piece.quote:
            fields[-1] += value
            continue
        if _GLOB.search(value):
            raise InputError(f"the shell reads the value of {piece.text} as a pattern for file names")
        parts = _SEPARATED.findall(value)
        if not parts:
            continue
        if value[0] in _SEPARATORS and fields[-1]:
            fields.append("")
        fields[-1] += parts[0]
        fields += parts[1:]
        present = True
        if value[-1] in _SEPARATORS:
            fields.append("")
    if len(fields) > 1 and not fields[-1]:
        fields.pop()
    bare = "".join(piece.text for piece in word.pieces if not piece.quote and piece.end - piece.start == 1)
    if _GLOB.search(bare) or re.search(r"\{[^}]*(?:,|\.\.)", bare):
        raise InputError(f"the shell reads {word.text} as a pattern: its brackets or stars are not quoted")
    return tuple(fields) if present else ()


def _value(piece: Piece, variables: Variables) -> str | None:
    if piece.substituted:
        return None
    if piece.variable in variables.values:
        return variables.values[piece.variable]
    name = piece.variable
    if not variables.complete or name in variables.unknown or not _NAME.fullmatch(name):
        return None
    return None if name in _OWN or name.startswith("BASH") else ""


def assign(words: tuple[Word, ...], variables: Variables) -> None:
    """Notes NAME=value words; a value that can't be told makes the variable unknown."""
    for word in words:
        match = ASSIGNMENT.fullmatch(word.text)
        if match is None:
            continue
        pieces = word.pieces[len(match[1]) + 1 :]
        values = [_value(piece, variables) if piece.variable or piece.substituted else piece.text for piece in pieces]
        if any(value is None for value in values):
            variables.values.pop(match[1], None)
            variables.complete = False
        else:
            variables.values[match[1]] = "".join(value for value in values if value is not None)
