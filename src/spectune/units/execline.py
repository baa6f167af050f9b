"""Command lines in unit files: words, escapes, specifiers, and how new words are written (systemd.service(5))."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from spectune.domain.errors import InputError
from spectune.domain.redaction import redact_text
from spectune.units.text import Line, Piece, Text, Word
from spectune.units.unit import BLANKS

_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}
_NUMBERED = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})")
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./~^%$-]+")
_PREFIXES = "-@:+!"
_SPECIFIERS = "aAbBcCdDEfgGhHiIjJlLmMnNopPqrRsStTuUvVwWyY"

_Escape = Callable[[str, str], str]


@dataclass(frozen=True, slots=True)
class Command:
    """One command of an ExecStart= line.

    Attributes:
        line: its words, the program first; with the prefix "@" the name that the program is told comes second.
        prefix: the special characters before the program.
        expands: whether systemd replaces variables in it (":" switches that off).
    """

    line: Line
    prefix: str

    @property
    def expands(self) -> bool:
        return ":" not in self.prefix

    @property
    def named(self) -> bool:
        """Whether the second word is not an argument, but the name that the program is told."""
        return "@" in self.prefix


def split_commands(text: Text, specifiers: Mapping[str, str]) -> tuple[Command, ...]:
    """The commands of an ExecStart= value; a lone ";" separates them.

    Args:
        specifiers: letter -> value ("i": "0"). Others stay as they are written.

    Raises:
        InputError: a quote is not closed, a specifier is unknown, or there is no program; systemd refuses such a line
            too.
    """
    commands: list[Command] = []
    words: list[Word] = []
    source = text.text
    at = before = 0
    while True:
        while at < len(source) and source[at] in BLANKS:
            at += 1
        separator = source.startswith(";", at) and (at + 1 == len(source) or source[at + 1] in BLANKS)
        if at == len(source) or separator:
            if words:
                commands.append(_command(text, words, specifiers))
                words = []
            if at == len(source):
                return tuple(commands)
            at = before = at + 1
            continue
        if words and source.startswith("\\;", at) and (at + 2 == len(source) or source[at + 2] in BLANKS):
            word = Word((Piece(";", at, at + 2),), at, at + 2, before)
        else:
            word = read_word(source, at, before)
        words.append(word)
        at = before = word.end


def _command(text: Text, words: list[Word], specifiers: Mapping[str, str]) -> Command:
    spelled = words[0].text
    name = spelled.lstrip(_PREFIXES)
    prefix = spelled[: len(spelled) - len(name)]
    if not name:
        raise InputError(f"no program after {spelled!r} in the ExecStart= line")
    words[0] = replace(words[0], pieces=words[0].pieces[len(prefix) :])
    specified = tuple(_specify(word, specifiers) for word in words)
    if ":" in prefix:
        return Command(Line(text, specified, quote_unexpanded, escape_unexpanded), prefix)
    return Command(Line(text, specified, quote_word, escape), prefix)


def read_word(source: str, at: int, before: int) -> Word:
    """The word that begins at an offset: quotes may open anywhere in it, escapes count inside both kinds of quotes.
    A word with an unknown escape keeps that escape as it is written.

    Raises:
        InputError: a quote is not closed, or an escape spells a lone byte above 127.
    """
    pieces: list[Piece] = []
    quote = ""
    start = at
    while at < len(source):
        char = source[at]
        if quote and char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
        elif not quote and char in BLANKS:
            break
        elif char == "\\":
            meant, length = _unescape(source, at + 1)
            if len(meant) > 1:
                pieces += (Piece("\\", at, at + 1, quote), Piece(meant[1], at + 1, at + 2, quote))
            else:
                pieces.append(Piece(meant, at, at + 1 + length, quote))
            at += length
        else:
            pieces.append(Piece(char, at, at + 1, quote))
        at += 1
    if quote:
        raise InputError(f"the quote {quote} is not closed in: {redact_text(source[start : start + 60])}")
    return Word(tuple(pieces), start, at, before)


def _unescape(source: str, at: int) -> tuple[str, int]:
    """What the escape sequence behind a backslash stands for, and its length; an unknown one stands for itself."""
    char = source[at : at + 1]
    if char in _SIMPLE:
        return _SIMPLE[char], 1
    if char and char in "\\\"'":
        return char, 1
    numbered = _NUMBERED.match(source, at)
    if numbered:
        code = int(numbered[4], 8) if numbered[4] else int(numbered[1] or numbered[2] or numbered[3], 16)
        if code > 127 and (numbered[1] or numbered[4]):
            raise InputError(f"\\{numbered[0]} spells a part of a character", "write the character itself")
        if 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
            return chr(code), len(numbered[0])
    return "\\" + char, len(char)


def _specify(word: Word, specifiers: Mapping[str, str]) -> Word:
    """The word with its specifiers (%i, %%) replaced; those whose value is not given stay as they are written.

    Raises:
        InputError: one that systemd does not know.
    """
    pieces: list[Piece] = []
    rest = iter(word.pieces)
    for piece in rest:
        following = next(rest, None) if piece.text == "%" else None
        if following is None:
            pieces.append(piece)
            continue
        letter = following.text
        if letter.isascii() and letter.isalnum() and letter not in _SPECIFIERS:
            raise InputError(f"systemd knows no specifier %{letter}", "write %% where a percent sign is meant")
        text = "%" if letter == "%" else specifiers.get(letter, "%" + letter)
        pieces.append(Piece(text, piece.start, following.end, piece.quote))
    return replace(word, pieces=tuple(pieces))


def specify(text: str, specifiers: Mapping[str, str]) -> str:
    """A text with its specifiers replaced.

    Raises:
        InputError: one that systemd does not know.
    """
    return _specify(Word(tuple(Piece(char, 0, 0) for char in text), 0, 0, 0), specifiers).text


def quote_word(text: str) -> str:
    """A word as it is written in ExecStart= so that systemd means exactly that text."""
    return _quoted(text, escape)


def quote_unexpanded(text: str) -> str:
    """The same for commands with the prefix ":", in which variables are not replaced."""
    return _quoted(text, escape_unexpanded)


def escape(text: str, quote: str) -> str:
    """Characters as they are written within a word, inside the given quote."""
    return escape_unexpanded(text, quote).replace("$", "$$")


def escape_unexpanded(text: str, quote: str) -> str:
    """The same for commands with the prefix ":"."""
    table = {"\\": "\\\\", "%": "%%", "\n": "\\n", "\r": "\\r", "\0": "\\x00"}
    if quote:
        table[quote] = "\\" + quote
    else:
        table |= {"'": "\\'", '"': '\\"', " ": "\\s", "\t": "\\t"}
    return "".join(table.get(char, char) for char in text)


def _quoted(text: str, escape_in: _Escape) -> str:
    if _PLAIN.fullmatch(text):
        return escape_in(text, "")
    quote = "'" if '"' in text and "'" not in text else '"'
    return quote + escape_in(text, quote) + quote
