"""What a connection recorded: the body of an answer, and when each part of it came."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Self, TypeAlias, overload

from spectune.load.sse import Piece

Columns: TypeAlias = "tuple[bytes, array[int], array[int]]"
"""(the whole body; of every read that brought some of it, its time in ns, and how much of the body there was then)"""


class Tape(Sequence[Piece]):
    """One body with the time of every read, as a sequence of (arrival in ns, bytes)."""

    def __init__(self, body: bytes, stamps: array[int], ends: array[int]) -> None:
        self._columns: Columns | None = (body, stamps, ends)
        self._recorded: tuple[list[bytes], array[int], list[int]] | None = None

    @classmethod
    def of(cls, pieces: Iterable[Piece]) -> Self:
        """The tape that has these pieces."""
        stamps, datas = array("q"), []
        for stamp, data in pieces:
            if data:
                stamps.append(stamp)
                datas.append(data)
        return cls(b"".join(datas), stamps, array("q", accumulate(map(len, datas))))

    @classmethod
    def later(cls, bodies: list[bytes], stamps: array[int], stops: list[int]) -> Self:
        """The tape of all bodies, and of every read its stamp and how many bodies there were after it.

        It is put together at the first look: an exchange ends when others are waiting for their stamps, often hundreds
        at the same moment.
        """
        tape = cls(b"", array("q"), array("q"))
        tape._columns, tape._recorded = None, (bodies, stamps, stops)
        return tape

    def columns(self) -> Columns:
        """All of it. Pairs would be an object a piece."""
        if self._columns is None:
            assert self._recorded is not None
            self._columns = _put_together(*self._recorded)
            self._recorded = None
        return self._columns

    @overload
    def __getitem__(self, index: int) -> Piece: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Piece, ...]: ...
    def __getitem__(self, index: int | slice) -> Piece | tuple[Piece, ...]:
        return tuple(self)[index]

    def __len__(self) -> int:
        return len(self.columns()[1])

    def __iter__(self) -> Iterator[Piece]:
        body, stamps, ends = self.columns()
        start = 0
        for stamp, end in zip(stamps, ends, strict=True):
            yield stamp, body[start:end]
            start = end

    def __repr__(self) -> str:
        return repr(tuple(self))


def _put_together(bodies: list[bytes], stamps: array[int], stops: list[int]) -> Columns:
    sizes = [0, *accumulate(map(len, bodies))]
    kept, ends, had = array("q"), array("q"), 0
    for stamp, stop in zip(stamps, stops, strict=True):
        if sizes[stop] > had:  # a read may hold nothing but framing
            had = sizes[stop]
            kept.append(stamp)
            ends.append(had)
    return b"".join(bodies)[:had], kept, ends  # a read that was no HTTP may have brought some


def stamps_of(event_ends: Sequence[int], stamps: array[int], ends: array[int]) -> array[int]:
    """For each event, by where in the body it ends: the time of the read that completed it."""
    if not event_ends:
        return array("q")
    first = bisect_left(ends, event_ends[0])
    if ends[first : first + len(event_ends)].tolist() == event_ends:  # a read for each, as of a paced stream
        return stamps[first : first + len(event_ends)]
    return array("q", [stamps[bisect_left(ends, end)] for end in event_ends])
