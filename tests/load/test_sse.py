"""Server-sent events, and every way in which bytes can be cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.load.sse import decode_sse
from spectune.load.stream import parse_stream
from tests.load.streams import cut, delta, event, patient


def reference(data: bytes) -> list[bytes]:
    """The rules of the HTML standard, on a whole stream at once."""
    text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events = []
    for block in text.split(b"\n\n"):
        values = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
        if values:
            events.append(b"\n".join(values))
    return events


line_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
values = st.binary(max_size=12).map(lambda data: re.sub(rb"[\r\n]", b"x", data))
lines = st.one_of(
    st.tuples(st.sampled_from([b"data: ", b"data:", b": ", b"event: ", b"id:", b"retry: ", b"x"]), values).map(
        b"".join
    ),
    st.sampled_from(["data: über ☃ 🦙", "data: [DONE]", "data: {}"]).map(str.encode),
)


@st.composite
def sse(draw: st.DrawFn) -> bytes:
    blocks = draw(st.lists(st.lists(lines, min_size=1, max_size=4), max_size=6))
    end = draw(line_ends)
    start = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    return start + b"".join(end.join([*block, b"", b""]) for block in blocks)


@patient
@given(data=sse(), at=st.lists(st.integers(0, 1000), max_size=20))
def test_events_are_the_same_however_they_are_cut(data: bytes, at: list[int]) -> None:
    assert [payload for _, payload in decode_sse(cut(data, at))] == reference(data)


@patient
@given(data=st.binary(max_size=200), at=st.lists(st.integers(0, 1000), max_size=20))
def test_arbitrary_bytes_are_the_same_however_they_are_cut(data: bytes, at: list[int]) -> None:
    whole = list(decode_sse([(0, data)]))
    assert [payload for _, payload in decode_sse(cut(data, at))] == [payload for _, payload in whole]


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\rdata: b\n\n", [b"a\nb"]),
        (b"data:a\r\rdata:  b\r\n\r\n", [b"a", b" b"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b": comment\n\ndata: a\nevent: x\ndata: b\n\n", [b"a\nb"]),
        (b"data\n\ndata: \n\n", [b"", b""]),
        (b"data: a\n", [b"a"]),
        (b"data: a", []),
        (b"data: a\n\ndata: [DONE]", [b"a", b"[DONE]"]),
        (b"data: a\n\ndata: [DON", [b"a"]),
        (b"database: a\n\n", []),
        (b"\n\n\r\n", []),
    ],
)
def test_events(data: bytes, events: list[bytes]) -> None:
    assert [payload for _, payload in decode_sse([(0, data)])] == events


def test_every_place_to_cut_line_ends_and_characters() -> None:
    data = "\ufeffdata: ü\r\ndata: b\r\n\r\ndata: c\r\rdata: d\n\ndata: e\n\r\ndata: [DONE]\r\n\r\n".encode()
    events = ["ü\nb".encode(), b"c", b"d", b"e", b"[DONE]"]
    for first in range(len(data) + 1):
        for second in range(first, len(data) + 1):
            pieces = [(0, data[:first]), (1, data[first:second]), (2, data[second:])]
            assert [payload for _, payload in decode_sse(pieces)] == events


def test_an_event_has_the_stamp_of_the_piece_that_completed_it() -> None:
    pieces = [(1, b"data: a\n"), (2, b"\ndata: b\n\nda"), (3, b"ta: c"), (4, b"\r"), (5, b"\n\r\n"), (6, b"data: d")]
    assert list(decode_sse([*pieces, (7, b"\n")])) == [(2, b"a"), (2, b"b"), (5, b"c"), (7, b"d")]


def test_a_giant_event_in_many_pieces_is_joined_once() -> None:
    text = "x" * 20_000_000
    data = event(delta(text))
    parsed = parse_stream((i, data[i : i + 1000]) for i in range(0, len(data), 1000))
    assert parsed.text == text
