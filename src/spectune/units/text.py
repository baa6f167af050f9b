"""Texts inside texts: a command in a unit file may be a word that a shell splits again.

Each layer knows, for every character it shows, which characters of the layer outside spell it. A change made in the
innermost text is therefore written outwards, quoted as each layer needs, and touches no other byte of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from spectune.domain.errors import InputError
from spectune.domain.redaction import redact_text


@dataclass(frozen=True, slots=True)
class Piece:
    """What a stretch of a text stands for.

    Attributes:
        text: the characters meant.
        start, end: where they are spelled, quotes not included.
        quote: the quote they stand in: ', " or "".
        variable: name of the variable that a shell puts here; text is then its spelling.
        substituted: a shell puts something here that the text does not tell; text is then its spelling.
    """

    text: str
    start: int
    end: int
    quote: str = ""
    variable: str = ""
    substituted: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command line.

    Attributes:
        pieces: what it stands for, in order.
        start, end: where it is spelled, quotes included.
        before: where the token before it ends.
    """

    pieces: tuple[Piece, ...]
    start: int
    end: int
    before: int

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Splice:
    """Replace characters start to end of a file by new."""

    start: int
    end: int
    new: str


class Text(Protocol):
    """A text in which changes can be made."""

    @property
    def text(self) -> str: ...

    def splices(self, start: int, end: int, new: str) -> tuple[Splice, ...]:
        """The changes of the file that replace characters start to end of this text by new."""


@dataclass(frozen=True, slots=True)
class Value:
    """The value of an assignment as systemd joins its lines.

    Attributes:
        text: the joined value.
        offsets: for each of its characters, where it is in the file.
        at: where the value begins in the file.
        end: where it ends there.
        commented: offsets of the backslashes that comment lines follow.
    """

    text: str
    offsets: tuple[int, ...]
    at: int
    end: int
    commented: frozenset[int] = frozenset()

    def splices(self, start: int, end: int, new: str) -> tuple[Splice, ...]:
        """See Text. Comment lines between the characters replaced stay, and so does the backslash before them."""
        if start == end:
            at = self.offsets[start - 1] + 1 if start else self.at
            return (Splice(at, at, new),)
        found: list[Splice] = []
        for first, last in self._runs(start, end):
            found.append(Splice(self.offsets[first], self.offsets[last - 1] + 1, "" if found else new))
        return tuple(found)

    def _runs(self, start: int, end: int) -> Iterable[tuple[int, int]]:
        first = start
        for index in range(start, end - 1):
            if self.offsets[index] in self.commented:
                last = index
                while last > first and self.text[last - 1].isspace():
                    last -= 1
                if last > first:
                    yield first, last
                first = index + 1
        yield first, end


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The text of another file, which is read and never changed.

    Attributes:
        text: the file's text.
        path: where it is on the host.
    """

    text: str
    path: str

    def splices(self, start: int, end: int, new: str) -> tuple[Splice, ...]:
        """Raises:
        InputError: always.
        """
        what = redact_text(self.text[start:end].strip()) or "the command line"
        raise InputError(
            f"{what} stands in {self.path}, and spectune changes unit files only",
            f'change it there by hand, or let {self.path} end in "$@" and move the flag into ExecStart=',
        )


@dataclass(frozen=True, slots=True)
class Nested:
    """A word that is a text of its own: the script in sh -c '...'.

    Attributes:
        outer: the text in which the word stands.
        word: the word; each of its pieces must be one character or stay whole.
        escape: spells characters for the outer text, given the quote they stand in.
    """

    outer: Text
    word: Word
    escape: Callable[[str, str], str]

    @property
    def text(self) -> str:
        return self.word.text

    def splices(self, start: int, end: int, new: str) -> tuple[Splice, ...]:
        """See Text.

        Raises:
            InputError: start or end is within something that the outer text spells as one.
        """
        pieces = self.word.pieces
        if start == end:
            beside = pieces[self._index(start) - 1] if start else None
            at = beside.end if beside else (pieces[0].start if pieces else self.word.start)
            quote = beside.quote if beside else (pieces[0].quote if pieces else "")
            return self.outer.splices(at, at, self.escape(new, quote))
        first, last = self._index(start), self._index(end) - 1
        left, right = pieces[first], pieces[last]
        # Where the quoting differs between the two ends, the first quote is closed and the last one opened.
        turn = "" if left.quote == right.quote else left.quote + right.quote
        return self.outer.splices(left.start, right.end, self.escape(new, left.quote) + turn)

    def _index(self, offset: int) -> int:
        """Number of the piece that begins at an offset of the text."""
        at = 0
        for index, piece in enumerate(self.word.pieces):
            if at == offset:
                if index and self.word.pieces[index - 1].end > piece.start:
                    break
                return index
            at += len(piece.text)
        else:
            if at == offset:
                return len(self.word.pieces)
        raise InputError("a variable or specifier reaches across the edge of what is to be changed")


@dataclass(frozen=True, slots=True)
class Line:
    """The words of one command in a text.

    Attributes:
        text: where they stand.
        words: the words, its own first.
        quote: spells a new word for this text.
        escape: spells characters within a word, given the quote they stand in.
    """

    text: Text
    words: tuple[Word, ...]
    quote: Callable[[str], str]
    escape: Callable[[str, str], str]

    def replace(self, slot: int, new: Sequence[str]) -> tuple[Splice, ...]:
        """Other words in the place of one."""
        word = self.words[slot]
        return self.text.splices(word.start, word.end, " ".join(self.quote(text) for text in new))

    def remove(self, slot: int) -> tuple[Splice, ...]:
        """The word goes, and the blanks before it."""
        word = self.words[slot]
        gap = self.text.text[word.before : word.start]
        return self.text.splices(word.before if not gap or gap.isspace() else word.start, word.end, "")

    def insert(self, slot: int, new: Sequence[str]) -> tuple[Splice, ...]:
        """More words behind one."""
        at = self.words[slot].end
        return self.text.splices(at, at, "".join(f" {self.quote(text)}" for text in new))


def apply(text: str, splices: Iterable[Splice]) -> str:
    """The text with all replacements made. They must not overlap.

    Raises:
        InputError: two of them overlap.
    """
    parts: list[str] = []
    at = 0
    for splice in sorted(splices, key=lambda splice: (splice.start, splice.end)):
        if splice.start < at:
            raise InputError("two changes meet in the same word of the command line")
        parts += [text[at : splice.start], splice.new]
        at = splice.end
    return "".join([*parts, text[at:]])
