"""Events of a stream that differ in one string only, read many at a time: nearly all of an answer."""

from __future__ import annotations

import ctypes
import re
from array import array
from typing import Any

import orjson

from spectune.load.native.library import Run, library
from spectune.load.sse import BLANK, DATA
from spectune.load.tape import Columns, stamps_of

_STRING = rb'((?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])++)'


class Template:
    """What the events of a stream have in common: all of their bytes but one string.

    Of the events that begin and end with the same bytes, only that string need be decoded.
    """

    def __init__(self, prefix: bytes, suffix: bytes, into: list[str]) -> None:
        """Takes the data of an event up to the opening quote and from the closing one, and where its string belongs."""
        self.into = into
        self._before, self._after = DATA + prefix, suffix + BLANK
        self.begins = BLANK + self._before  # where a run may begin, after other events
        self._pattern: re.Pattern[bytes] | None = None

    def read(self, tape: Columns, at: int) -> tuple[str, array[int], int] | None:
        """Reads the events from this place of the body on, as long as they follow the template.

        Returns:
            Their text, the time of each event, and where they end, which is `at` if there are none. None if one of them
            is no JSON.
        """
        if not tape[0].startswith(self._before, at):
            return "", array("q"), at
        native = library()
        return self._read(tape, at) if native is None else self._read_fast(native, tape, at)

    def _read(self, tape: Columns, at: int) -> tuple[str, array[int], int] | None:
        body, stamps, ends = tape
        if self._pattern is None:
            self._pattern = re.compile(re.escape(self._before) + _STRING + re.escape(self._after))
        match = self._pattern.match
        strings: list[bytes] = []
        event_ends: list[int] = []
        while found := match(body, at):
            strings.append(found[1])
            at = found.end()
            event_ends.append(at)
        text = _decode_strings(b'["' + b'","'.join(strings) + b'"]') if strings else ""
        return None if text is None else (text, stamps_of(event_ends, stamps, ends), at)

    def _read_fast(self, native: Any, tape: Columns, at: int) -> tuple[str, array[int], int] | None:
        body, stamps, ends = tape
        before, after = self._before, self._after
        left = len(body) - at
        event_stamps = array("q", bytes(8 * (left // (len(before) + len(after)) + 1)))
        strings = _room(2 * (left + 3))
        run = Run(
            body, len(body), at, before, after, len(before), len(after), stamps.buffer_info()[0], ends.buffer_info()[0],
            len(stamps), event_stamps.buffer_info()[0], strings, strings + left + 3,
        )  # fmt: skip
        count = native.spectune_run(run)
        del event_stamps[count:]
        if run.text_n >= 0:
            text: str | None = ctypes.string_at(strings + left + 3, run.text_n).decode("ascii")
        else:
            text = _decode_strings(ctypes.string_at(strings, run.strings_n))
        return None if text is None else (text, event_stamps, run.at)


def _decode_strings(strings: bytes) -> str | None:
    """Decodes an array of strings into one text, each by itself: two halves of a character must not become one."""
    texts = decode(strings)
    return None if texts is None else "".join(texts)


_rooms: list[Any] = [ctypes.create_string_buffer(1 << 16)]


def _room(size: int) -> int:
    """Where so many bytes can be written, up to the next call."""
    if len(_rooms[0]) < size:
        _rooms[0] = ctypes.create_string_buffer(2 * size)
    return ctypes.addressof(_rooms[0])


def decode(data: bytes) -> Any:
    """Decodes JSON; None if it is none."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
