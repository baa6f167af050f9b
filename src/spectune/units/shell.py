"""Shell scripts, as far as it takes to find one command in them and to change its words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from spectune.domain.errors import InputError
from spectune.domain.redaction import redact_text
from spectune.units.text import Piece, Word

_OPERATOR = re.compile(r"\n|;;|;|&&|&>>|&>|&|\|\||\|&|\||\(|\)")
_REDIRECTION = re.compile(r"(?:\d+)?(?:>>|>&|>\||<&|<>|<<<|<<-?|<|>)")
_PARAMETER = re.compile(r"\$(?:\{([A-Za-z_]\w*|[@*#?$!0-9])\}|([A-Za-z_]\w*|[@*#?$!0-9-]))")
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_INTRODUCING = frozenset({"if", "then", "else", "elif", "while", "until", "do", "{", "!", "time"})
_BRANCHING = frozenset({"if", "case", "while", "until", "for", "select", "||", "|", "&", "("})
_LONE = frozenset({"fi", "done", "esac", "}"})


@dataclass(frozen=True, slots=True)
class Simple:
    """One simple command of a script.

    Attributes:
        words: its words, redirections and leading assignments not among them.
        assignments: the words NAME=value before it.
    """

    words: tuple[Word, ...]
    assignments: tuple[Word, ...]


def simple_commands(script: str) -> tuple[Simple, ...]:
    """The simple commands of a script in the order they stand, those within if, for, braces and pipes among them.

    Raises:
        InputError: a construct that is not read here: a quote not closed, a here-document, a function.
    """
    commands: list[Simple] = []
    words: list[Word] = []
    skip_target = False
    for token in tokens(script):
        if isinstance(token, Word):
            if skip_target:
                skip_target = False
            else:
                words.append(token)
        elif token == "redirection":
            skip_target = True
        elif token == "(" and words:
            raise InputError(f"the shell script defines a function or an array: {words[-1].text}(...)")
        else:
            commands += _simple(words)
            words = []
    return (*commands, *_simple(words))


def _simple(words: list[Word]) -> list[Simple]:
    at = 0
    while at < len(words) and words[at].text in _INTRODUCING:
        at += 1
    if at == len(words) or words[at].text in _LONE:
        return []
    first = at
    while at < len(words) and is_assignment(words[at]):
        at += 1
    return [Simple(tuple(words[at:]), tuple(words[first:at]))]


def branches(script: str) -> bool:
    """Whether some commands of a script may be left out, so that what they set need not be set."""
    return any((token if isinstance(token, str) else token.text) in _BRANCHING for token in tokens(script))


def is_assignment(word: Word) -> bool:
    """Whether a shell reads the word as NAME=value when it stands before a command."""
    return bool(ASSIGNMENT.fullmatch(word.text)) and not any(
        piece.quote or piece.substituted for piece in word.pieces[: word.text.index("=") + 1]
    )


def tokens(script: str) -> Iterator[Word | str]:
    """Words, and operators as they are written; a redirection is the word "redirection"."""
    at = before = 0
    while at < len(script):
        if script[at] in " \t" or script.startswith("\\\n", at):
            at += 1 if script[at] in " \t" else 2
            continue
        if script[at] == "#":
            end = script.find("\n", at)
            at = len(script) if end < 0 else end
            continue
        redirection = _REDIRECTION.match(script, at)
        operator = _OPERATOR.match(script, at)
        if redirection or (operator and operator[0].startswith("&>")):
            spelled = redirection[0] if redirection else operator[0] if operator else ""
            if spelled.lstrip("0123456789") in {"<<", "<<-"}:
                raise InputError("the shell script contains a here-document")
            if script.startswith("(", at + len(spelled)):
                raise InputError("the shell script contains a process substitution")
            at += len(spelled)
            yield "redirection"
        elif operator:
            at = operator.end()
            yield operator[0]
        else:
            word = _word(script, at, before)
            at = word.end
            yield word
        before = at


def _word(script: str, start: int, before: int) -> Word:
    pieces: list[Piece] = []
    quote = ""
    at = start
    while at < len(script):
        char = script[at]
        if quote == "'":
            if char == "'":
                quote = ""
            else:
                pieces.append(Piece(char, at, at + 1, quote))
            at += 1
        elif char == '"' or (char == "'" and not quote):
            quote = "" if quote else char
            at += 1
        elif char == "\\":
            escaped = script[at + 1 : at + 2]
            if escaped != "\n":
                kept = quote and escaped not in {"$", "`", '"', "\\"}
                pieces.append(Piece("\\" + escaped if kept or not escaped else escaped, at, at + 2, quote))
            at += 2
        elif char in "$`":
            piece = _substitution(script, at, quote)
            pieces.append(piece)
            at = piece.end
        elif not quote and (char in " \t\n;&|()<>"):
            break
        else:
            pieces.append(Piece(char, at, at + 1, quote))
            at += 1
    if quote:
        beginning = redact_text(script[start : start + 60])
        raise InputError(f"the quote {quote} is not closed in the shell script: {beginning}")
    return Word(tuple(pieces), start, at, before)


def _substitution(script: str, at: int, quote: str) -> Piece:
    parameter = _PARAMETER.match(script, at)
    if parameter:
        return Piece(parameter[0], at, parameter.end(), quote, variable=parameter[1] or parameter[2])
    if script.startswith(("$(", "${"), at):
        end = _closing(script, at + 1)
    elif script[at] == "`":
        end = script.find("`", at + 1) + 1
    elif not quote and script.startswith(("$'", '$"'), at):
        raise InputError("the shell script contains a $'...' quote")
    else:
        return Piece("$", at, at + 1, quote)
    if not end:
        raise InputError(f"a substitution is not closed in the shell script: {redact_text(script[at : at + 60])}")
    return Piece(script[at:end], at, end, quote, substituted=True)


def _closing(script: str, at: int) -> int:
    """Behind the bracket that closes the one at an offset; 0 where there is none."""
    pairs = {"(": ")", "{": "}"}
    awaited: list[str] = []
    quote = ""
    while at < len(script):
        char = script[at]
        if char == "\\" and quote != "'":
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in pairs:
            awaited.append(pairs[char])
        elif awaited and char == awaited[-1]:
            awaited.pop()
            if not awaited:
                return at + 1
        at += 1
    return 0


def quote_word(text: str) -> str:
    """A word as it is written in a script so that the shell means exactly that text."""
    if _PLAIN.fullmatch(text):
        return text
    return "'" + escape(text, "'") + "'"


def escape(text: str, quote: str) -> str:
    """Characters as they are written within a word, inside the given quote."""
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote == '"':
        return re.sub(r'([\\"$`])', r"\\\1", text)
    return re.sub(r"([^A-Za-z0-9_@%+=:,./\n-])", r"\\\1", text).replace("\n", "'\n'")
