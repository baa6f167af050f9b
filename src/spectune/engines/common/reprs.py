"""Reads settings that a Python server writes into its log, without running them.

SGLang writes `ServerArgs(model_path='/m', decode=Phase(backend='full'), ...)` or `{'model_path': '/m', ...}`. vLLM
writes dictionaries too, and `model='/m', dtype=torch.bfloat16, load_format=auto, mode=<CUDAGraphMode.NONE: 0>, ...`,
where some values are bare words. All are a nesting of calls, dictionaries, lists and plain values.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

_MAX_DEPTH = 12
_NUMBER = re.compile(r"-?(?:\d{1,40}(?:\.\d{0,40})?(?:[eE][+-]?\d{1,3})?|inf|nan)")
_STRING = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\"""")
_WORD = re.compile(r"""(?!\s)(?:[^,(){}\[\]'"<>=:]|:(?!\s))+""")
_NAME = re.compile(r"([A-Za-z_][\w.]*)=")
_SPACE = re.compile(r"\s*")
_ENUM = re.compile(r"<[A-Za-z_][\w.]*: ")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_CONSTANTS = {"None": None, "True": True, "False": False}


def fields(text: str) -> Mapping[str, object]:
    """Name -> value of a dictionary, of a call's arguments or of `(name=value, ...)` at the beginning of a text: plain
    values, lists, and dictionaries for what is nested. A member of an enumeration is its value, as on a JSON page; any
    other object is None.

    A text that breaks off or holds something unreadable gives the fields before that; other text gives none. Never
    raises.
    """
    reader = _Reader(text)
    try:
        value = reader.value(0)
    except _Unreadable:
        value = reader.top
    return value if isinstance(value, dict) else {}


class _Unreadable(Exception):
    """The text is not what it should be from here on."""


class _Reader:
    """Reads one value after another. `top` holds the outermost fields read so far."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.top: dict[str, object] = {}

    def value(self, depth: int) -> object:
        if depth > _MAX_DEPTH:
            raise _Unreadable
        self._skip_space()
        char = self._peek()
        if char in _CLOSING:
            return self._bracket(depth)
        if char in "'\"":
            return self._string()
        if char == "<":
            return self._object(depth)
        if char in ",)":
            return ""  # a value that prints as nothing
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
            return _number(word)
        return word

    def _bracket(self, depth: int) -> object:
        """A list, tuple, set, dictionary or the arguments of a call; a dictionary where its items have keys."""
        end = _CLOSING[self._peek()]
        self._at += 1
        items: list[object] = []
        fields: dict[str, object] = self.top if depth == 0 else {}
        while True:
            self._skip_space()
            if self._peek() == end:
                self._at += 1
                return fields if fields or (end == "}" and not items) else items
            key = self._keyword() if end == ")" else None
            first = self.value(depth + 1)
            self._skip_space()
            if key is None and end == "}" and self._peek() == ":":
                self._at += 1
                key, first = str(first), self.value(depth + 1)
                self._skip_space()
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

    def _object(self, depth: int) -> object:
        """`<Name.MEMBER: value>` gives its value; any other object in angle brackets gives None."""
        match = _ENUM.match(self._text, self._at)
        value = None
        if match:
            self._at = match.end()
            value = self.value(depth + 1)
        end = self._text.find(">", self._at)
        if end < 0:
            raise _Unreadable
        self._at = end + 1
        return value

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise _Unreadable
        self._at = match.end()
        try:
            return str(ast.literal_eval(match[0]))
        except (ValueError, SyntaxError):
            return match[0][1:-1]

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _peek(self) -> str:
        if self._at >= len(self._text):
            raise _Unreadable
        return self._text[self._at]


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
