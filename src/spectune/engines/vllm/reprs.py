"""Reads the settings that vLLM writes into its log, without running them.

`non-default args: {'host': '127.0.0.1', 'speculative_config': {...}}` is a dictionary; the engine's configuration is
`model='/m', speculative_config=SpeculativeConfig(method='ngram', ...), dtype=torch.bfloat16, load_format=auto,
compilation_config={'cudagraph_mode': <CUDAGraphMode.NONE: 0>, ...}`: names with values, some of them bare words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

_MAX_DEPTH = 12
_NUMBER = re.compile(r"-?\d{1,40}(?:\.\d{0,40})?(?:[eE][+-]?\d{1,3})?")
_STRING = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\"""")
_WORD = re.compile(r"""[^\s,(){}\[\]'"<>=][^,(){}\[\]'"<>=]*""")
_NAME = re.compile(r"([A-Za-z_]\w*)=")
_SPACE = re.compile(r"\s*")
_ENUM = re.compile(r"<[A-Za-z_]\w*\.([A-Z_0-9]+)(?::[^<>\n]*)?>")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_CONSTANTS = {"None": None, "True": True, "False": False}


def parse_dict(text: str) -> Mapping[str, object]:
    """A dictionary at the beginning of a text. One that breaks off or holds something unreadable gives the entries
    before that; other text gives none. Never raises."""
    return _read(text) if text.lstrip().startswith("{") else {}


def parse_config(text: str) -> Mapping[str, object]:
    """The engine's configuration. Calls become dictionaries of their arguments, members of enumerations their name in
    lower case. As `parse_dict` otherwise."""
    return _read(f"({text})") if _NAME.match(text.lstrip()) else {}


def _read(text: str) -> Mapping[str, object]:
    reader = _Reader(text)
    try:
        value = reader.value(0)
    except _Unreadable:
        value = reader.top
    return value if isinstance(value, dict) else {}


class _Unreadable(Exception):
    """The text is not what it should be from here on."""


class _Reader:
    """Reads one value after another. `top` holds the outermost entries read so far."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.top: dict[str, object] = {}

    def value(self, depth: int) -> object:
        if depth > _MAX_DEPTH:
            raise _Unreadable
        self._skip()
        char = self._peek()
        if char in _CLOSING:
            return self._bracket(depth)
        if char in "'\"":
            return self._string()
        if char == "<":
            return self._object()
        if char in ",)":
            return ""  # an option that prints as nothing
        return self._word(depth)

    def _word(self, depth: int) -> object:
        """A constant, a number, a bare word, or a call, whose keyword arguments make a dictionary."""
        match = _WORD.match(self._text, self._at)
        if match is None:
            raise _Unreadable
        self._at = match.end()
        word = match[0].strip()
        if self._peek() == "(":
            return self._bracket(depth)
        if word in _CONSTANTS:
            return _CONSTANTS[word]
        if _NUMBER.fullmatch(word):
            return float(word) if re.search(r"[.eE]", word) else int(word)
        return word.removeprefix("torch.")

    def _bracket(self, depth: int) -> object:
        """A list, tuple, set, dictionary or the arguments of a call; a dictionary where its items have keys."""
        end = _CLOSING[self._peek()]
        self._at += 1
        items: list[object] = []
        fields: dict[str, object] = self.top if depth == 0 else {}
        while True:
            self._skip()
            if self._peek() == end:
                self._at += 1
                return fields if fields or (end == "}" and not items) else items
            key = self._keyword() if end == ")" else None
            first = self.value(depth + 1)
            self._skip()
            if key is None and end == "}" and self._peek() == ":":
                self._at += 1
                key, first = str(first), self.value(depth + 1)
                self._skip()
            if key is None:
                items.append(first)
            else:
                fields[key] = first
            if self._peek() == ",":
                self._at += 1
            elif self._peek() != end:
                raise _Unreadable

    def _keyword(self) -> str | None:
        match = _NAME.match(self._text, self._at)
        if match is None:
            return None
        self._at = match.end()
        return match[1]

    def _object(self) -> object:
        """`<Name.MEMBER: value>` gives its member; any other object in angle brackets gives None."""
        match = _ENUM.match(self._text, self._at)
        if match:
            self._at = match.end()
            return match[1].lower()
        end = self._text.find(">", self._at)
        if end < 0:
            raise _Unreadable
        self._at = end + 1
        return None

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise _Unreadable
        self._at = match.end()
        try:
            return str(ast.literal_eval(match[0]))
        except (ValueError, SyntaxError):
            return match[0][1:-1]

    def _skip(self) -> None:
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _peek(self) -> str:
        if self._at >= len(self._text):
            raise _Unreadable
        return self._text[self._at]
