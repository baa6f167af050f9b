"""The environment of a service as its unit sets it, and what systemd puts in place of variables in a command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spectune.domain.errors import InputError
from spectune.units.execline import read_word, specify
from spectune.units.text import Piece, Word
from spectune.units.unit import BLANKS

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

_SET_BY_SYSTEMD = (
    "HOME USER LOGNAME SHELL PATH LANG INVOCATION_ID MAINPID SYSTEMD_EXEC_PID MANAGERPID RUNTIME_DIRECTORY TZ"
    " XDG_RUNTIME_DIR STATE_DIRECTORY CACHE_DIRECTORY LOGS_DIRECTORY CONFIGURATION_DIRECTORY CREDENTIALS_DIRECTORY"
    " NOTIFY_SOCKET WATCHDOG_USEC WATCHDOG_PID LISTEN_FDS LISTEN_PID JOURNAL_STREAM XDG_SESSION_ID TERM"
)
OF_SYSTEMD = frozenset(_SET_BY_SYSTEMD.split())
"""Variables that systemd itself sets on the host."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Variables of a service.

    Attributes:
        values: what the unit and its files set.
        unknown: variables that are set, but to what only the host knows.
        missing: environment files whose text is not at hand; they may set anything.
    """

    values: Mapping[str, str]
    unknown: frozenset[str] = OF_SYSTEMD
    missing: tuple[str, ...] = ()

    def tells(self, name: str) -> bool:
        """Whether the value is known; a variable that nothing sets is known to be empty."""
        return not self.missing and (name in self.values or name not in self.unknown)

    def get(self, name: str) -> str:
        return self.values.get(name, "")


def parse_environment(value: str, specifiers: Mapping[str, str]) -> dict[str, str]:
    """The variables of an Environment= line. What is no assignment is ignored, as systemd does.

    Raises:
        InputError: a quote is not closed.
    """
    found: dict[str, str] = {}
    for word in split_list(value):
        try:
            name, equals, text = specify(word, specifiers).partition("=")
        except InputError:
            continue
        if equals and _NAME.fullmatch(name):
            found[name] = text
    return found


def split_list(value: str) -> Iterator[str]:
    """The words of a value that is a list, with quotes and escapes read."""
    at = 0
    while True:
        while at < len(value) and value[at] in BLANKS:
            at += 1
        if at == len(value):
            return
        word = read_word(value, at, at)
        yield word.text
        at = word.end


def parse_environment_file(text: str) -> dict[str, str]:
    """The variables of an EnvironmentFile=. It is no shell script: quotes count only at the start of a value, nothing
    is expanded, and a line that begins with "export" sets nothing."""
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        if text[at] in BLANKS:
            at += 1
        elif text[at] in "#;":
            at = _end_of_comment(text, at)
        else:
            newline = text.find("\n", at)
            end = len(text) if newline < 0 else newline
            equals = text.find("=", at, end)
            if equals < 0:
                at = end
                continue
            value, at_end = _file_value(text, equals + 1)
            name = text[at:equals].strip(BLANKS)
            if _NAME.fullmatch(name):
                found[name] = value
            at = at_end
    return found


def _end_of_comment(text: str, at: int) -> int:
    while at < len(text) and text[at] not in "\n\r":
        at += 2 if text[at] == "\\" else 1
    return min(at, len(text))


def _file_value(text: str, at: int) -> tuple[str, int]:
    """A value of an environment file and where its line ends."""
    value: list[str] = []
    kept = 0  # trailing blanks that were not quoted or escaped go
    plain = False
    while at < len(text) and text[at] not in "\n\r":
        char = text[at]
        if char in "'\"" and not plain:
            quoted, at = _file_quoted(text, at)
            value += quoted
            kept = len(value)
            continue
        if char == "\\":
            plain = True
            if text[at + 1 : at + 2] not in {"\n", ""}:
                value.append(text[at + 1])
                kept = len(value)
            at += 2
            continue
        if char not in BLANKS or plain:
            plain = True
            value.append(char)
            kept = len(value) if char not in BLANKS else kept
        at += 1
    return "".join(value[:kept]), min(at, len(text))


def _file_quoted(text: str, at: int) -> tuple[list[str], int]:
    quote = text[at]
    value: list[str] = []
    at += 1
    while at < len(text) and text[at] != quote:
        if quote == '"' and text[at] == "\\":
            escaped = text[at + 1 : at + 2]
            if escaped and escaped in '"\\`$':
                value.append(escaped)
            elif escaped != "\n":
                value += ["\\", *escaped]
            at += 2
            continue
        value.append(text[at])
        at += 1
    return value, at + 1


def expand(word: Word, environment: Environment) -> tuple[Word, ...]:
    """What systemd puts in place of a word: $NAME alone becomes the words of its value, ${NAME} anywhere the value.
    Words of a value all point to the word that named it.

    Raises:
        InputError: the word stands for several words that only the host knows.
    """
    text = word.text
    if not text.startswith("$") or text[1:2] in {"{", "$"}:
        return (_with_values(word, environment),)
    name = text[1:]
    if not _NAME.fullmatch(name):
        raise InputError(f"{text} is no variable that systemd replaces: only $NAME as a whole word and ${{NAME}} are")
    if not environment.tells(name):
        where = f"may come from {environment.missing[0]}" if environment.missing else "are known on the host only"
        raise InputError(f"the words that ${name} stands for {where}")
    return tuple(
        Word((Piece(part, word.start, word.end),), word.start, word.end, word.before)
        for part in _split_value(environment.get(name))
    )


def _with_values(word: Word, environment: Environment) -> Word:
    pieces: list[Piece] = []
    text = word.text
    owners = [(piece, inner == 0) for piece in word.pieces for inner in range(len(piece.text))]
    at = 0
    while at < len(text):
        match = _BRACED.match(text, at)
        if match is None:
            piece, begins = owners[at]
            length = len(piece.text) if begins and "$" not in piece.text else 1
            pieces.append(Piece(text[at : at + length], piece.start, piece.end, piece.quote))
            at += length
            continue
        first, last = owners[at][0], owners[match.end() - 1][0]
        name = match[1]
        value = "$" if not name else environment.get(name) if environment.tells(name) else match[0]
        pieces.append(Piece(value, first.start, last.end, first.quote))
        at = match.end()
    return Word(tuple(pieces), word.start, word.end, word.before)


def _split_value(value: str) -> Iterator[str]:
    """The words of a variable's value: blanks separate, quotes keep together, a backslash takes the next character."""
    at = 0
    while at < len(value):
        if value[at] in BLANKS:
            at += 1
            continue
        word: list[str] = []
        quote = ""
        while at < len(value) and (quote or value[at] not in BLANKS):
            char = value[at]
            if char == "\\" and at + 1 < len(value):
                at += 1
                word.append(value[at])
            elif quote and char == quote:
                quote = ""
            elif not quote and char in "'\"":
                quote = char
            elif char != "\\":
                word.append(char)
            at += 1
        yield "".join(word)
