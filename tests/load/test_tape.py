"""A tape: which bytes came with which read."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.load.sse import Piece
from spectune.load.tape import Tape, stamps_of


@pytest.mark.parametrize(
    ("stops", "pieces"),
    [
        ([], []),
        ([0], []),
        ([1], [(0, b"a")]),
        ([1, 2, 3, 6], [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"def")]),
        ([0, 1, 2, 2, 4], [(1, b"a"), (2, b"b"), (4, b"cd")]),
        ([2, 3, 5, 5], [(0, b"ab"), (1, b"c"), (2, b"de")]),
    ],
)
def test_the_bodies_of_a_read_have_its_time(stops: list[int], pieces: list[Piece]) -> None:
    bodies = [b"%c" % (97 + n) for n in range(stops[-1] if stops else 0)]
    tape = Tape.later(bodies, array("q", range(len(stops))), stops)
    assert list(tape) == pieces
    assert tape.columns() == Tape.of(pieces).columns()


def test_bytes_after_the_last_good_read_are_left_out() -> None:
    assert list(Tape.later([b"good", b"bad"], array("q", [5]), [1])) == [(5, b"good")]


def test_it_is_a_sequence_of_pieces() -> None:
    tape = Tape.of([(3, b"one"), (4, b""), (5, b"two")])
    assert (len(tape), tape[-1], tape[:1], repr(tape)) == (2, (5, b"two"), ((3, b"one"),), "((3, b'one'), (5, b'two'))")


@given(st.lists(st.integers(1, 9), max_size=30), st.lists(st.integers(1, 9), max_size=30))
def test_an_event_has_the_time_of_the_read_that_completed_it(reads: list[int], events: list[int]) -> None:
    ends = array("q", [sum(reads[: n + 1]) for n in range(len(reads))])
    event_ends = [sum(events[: n + 1]) for n in range(len(events))]
    event_ends = [end for end in event_ends if end <= sum(reads)]
    stamps = array("q", [100 + n for n in range(len(reads))])
    expected = [100 + next(n for n, done in enumerate(ends) if done >= end) for end in event_ends]
    assert stamps_of(event_ends, stamps, ends).tolist() == expected
