"""A unit file: sections and assignments as systemd reads them, and every byte kept (systemd.syntax(7))."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from spectune.units.text import Value

_EOL = re.compile(r"\r\n|\n\r|\n|\r|\0|\Z")
BLANKS = " \t\n\r"


@dataclass(frozen=True, slots=True)
class Assignment:
    """A line "key=value" of a section.

    Attributes:
        line: number of its first line, from 1.
    """

    section: str
    key: str
    value: Value
    line: int


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit file or drop-in.

    Attributes:
        text: the file as it is; str(unit) gives it back.
        assignments: in file order. Lines that systemd ignores (comments, those without "=", those before
            any section) are not among them.
    """

    text: str
    assignments: tuple[Assignment, ...]

    @classmethod
    def parse(cls, text: str) -> Unit:
        """Reads a unit file. Any text is accepted; what systemd would ignore is ignored."""
        found: list[Assignment] = []
        section = ""
        for logical in _logical_lines(text):
            chars, offsets = logical.stripped()
            if chars.startswith("["):
                section = chars[1:-1] if chars.endswith("]") else ""
                continue
            equals = chars.find("=")
            if equals < 0 or not section:
                continue
            key = chars[:equals].strip(BLANKS)
            value = chars[equals + 1 :]
            skipped = len(value) - len(value.lstrip(BLANKS))
            at = offsets[equals] + 1
            first = equals + 1 + skipped
            spelled = offsets[first:]
            begin = spelled[0] if spelled else at
            end = spelled[-1] + 1 if spelled else at
            found.append(
                Assignment(section, key, Value(chars[first:], spelled, begin, end, logical.commented), logical.line)
            )
        return cls(text, tuple(found))

    def __str__(self) -> str:
        return self.text

    def values(self, section: str, key: str) -> tuple[Assignment, ...]:
        """All assignments of a key, in file order, resets (empty values) among them."""
        return tuple(item for item in self.assignments if item.section == section and item.key == key)


@dataclass(frozen=True, slots=True)
class _Logical:
    chars: str
    offsets: tuple[int, ...]
    line: int
    commented: frozenset[int]

    def stripped(self) -> tuple[str, tuple[int, ...]]:
        left = len(self.chars) - len(self.chars.lstrip(BLANKS))
        right = len(self.chars.rstrip(BLANKS))
        return self.chars[left:right], self.offsets[left:right]


def _logical_lines(text: str) -> Iterator[_Logical]:
    """Lines with their continuations joined. A backslash at the end becomes a blank, the next line follows with its
    indentation, and comment lines in between are skipped; an empty line ends the joining."""
    chars: list[str] = []
    offsets: list[int] = []
    commented: set[int] = set()
    first = 1
    joining = False
    for number, start, end in _physical_lines(text):
        begin = start
        while begin < end and text[begin] in BLANKS:
            begin += 1
        if begin < end and text[begin] in "#;":
            if joining:
                commented.add(offsets[-1])
            continue
        if not joining:
            chars, offsets, commented, first = [], [], set(), number
        chars += text[start:end]
        offsets += range(start, end)
        joining = _ends_with_backslash(text[start:end])
        if joining:
            chars[-1] = " "
            continue
        yield _Logical("".join(chars), tuple(offsets), first, frozenset(commented))
    if joining:
        yield _Logical("".join(chars), tuple(offsets), first, frozenset(commented))


def _physical_lines(text: str) -> Iterator[tuple[int, int, int]]:
    """Number, start and end (line end not included) of each line. A byte order mark at the start is no part of it."""
    at = 1 if text.startswith("\ufeff") else 0
    number = 1
    while at < len(text):
        eol = _EOL.search(text, at)
        assert eol is not None
        yield number, at, eol.start()
        at, number = eol.end(), number + 1
        if eol.start() == len(text):
            return


def _ends_with_backslash(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1
