"""Server-sent events, from bytes that may be cut anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

Piece = tuple[int, bytes]
"""(arrival in ns, bytes)"""
Event = tuple[int, bytes]
"""(arrival in ns of the piece that completed the event, its data)"""

_BOM = b"\xef\xbb\xbf"
DATA = b"data: "
BLANK = b"\n\n"
DONE = b"[DONE]"
_LINE_END = re.compile(rb"\r\n|\n|\r")


def decode_sse(pieces: Iterable[Piece]) -> Iterator[Event]:
    """Decodes server-sent events however they are cut into pieces; only `data` is kept.

    At the end of the stream an event without its closing blank line is still taken, since some servers leave it out,
    but not a line without its end, unless it says [DONE].
    """
    decoder = Decoder()
    stamp = 0
    for stamp, data in pieces:
        for payload in decoder.feed(data):
            yield stamp, payload
    for payload in decoder.finish():
        yield stamp, payload


class Decoder:
    """Incremental decoder after the HTML standard: CR, LF and CRLF end lines, a blank line ends an event."""

    def __init__(self) -> None:
        self.is_between = True  # nothing is pending
        self._first_line = True
        self._after_cr = False
        self._line: list[bytes] = []  # an unfinished line, joined when it ends so that a giant one costs no more
        self._data: list[bytes] = []  # data lines of an unfinished event

    def feed(self, piece: bytes) -> list[bytes]:
        """Takes the next bytes and returns the data of the events that they complete."""
        # What servers send nearly always: whole events of one line of data each.
        if self.is_between and piece.startswith(DATA) and piece.endswith(BLANK) and piece.find(b"\r") < 0:
            payloads = piece[len(DATA) : -len(BLANK)].split(BLANK + DATA)
            if piece.count(b"\n") == len(BLANK) * len(payloads):
                self._first_line = False
                return payloads
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]
            self._after_cr = False
        if not piece:
            return []
        self._after_cr = piece.endswith(b"\r")
        self._line.append(piece)
        events: list[bytes] = []
        if piece.find(b"\n") >= 0 or piece.find(b"\r") >= 0:
            *lines, rest = _LINE_END.split(b"".join(self._line))
            self._line = [rest] if rest else []
            for line in lines:
                self._end_line(line, events)
        self.is_between = not (self._line or self._data or self._after_cr)
        return events

    def finish(self) -> list[bytes]:
        """Returns the data of an event that the end of the stream completes, if there is one."""
        events: list[bytes] = []
        line = b"".join(self._line)
        if line.removeprefix(b"data:").strip() == DONE:
            self._end_line(line, events)
        self._end_line(b"", events)
        return events

    def _end_line(self, line: bytes, events: list[bytes]) -> None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                events.append(b"\n".join(self._data))
                self._data.clear()
        elif line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line == b"data":
            self._data.append(b"")
