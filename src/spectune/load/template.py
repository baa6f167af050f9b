"""Events of a stream that differ in one string only, read many at a time: nearly all of an answer."""

from __future__ import annotations

from typing import Any, cast

import orjson

from spectune.load.sse import BLANK, DATA


class Template:
    """What the events of a stream have in common: all of their bytes but one string.

    Of the events that begin and end with the same bytes, only that string need be decoded.
    """

    def __init__(self, prefix: bytes, suffix: bytes, into: list[str]) -> None:
        """Takes the data of an event up to the opening quote and from the closing one, and where its string belongs."""
        self.prefix, self.suffix, self.into = prefix, suffix, into
        self.before, self.after = DATA + prefix, suffix + BLANK  # the same of a whole event

    def read_payloads(self, payloads: list[bytes]) -> str | None:
        """Reads the data of events that all follow the template; None if one of them does not."""
        strings = _cut(payloads, self.prefix, self.suffix)
        return _decode_strings(strings) if strings else None

    def read_pieces(self, pieces: list[bytes]) -> tuple[str, list[int]] | None:
        """Reads pieces of whole events that all follow the template: their text, and how many each piece has."""
        strings = _cut(pieces, self.before, self.after)
        if not strings:
            return None
        counts = [1] * len(pieces)
        if b"\n" in b"".join(strings):
            split: list[bytes] = []
            for place, string in enumerate(strings):
                several = self._split(string) if b"\n" in string else [string]
                if several is None:
                    return None
                split += several
                counts[place] = len(several)
            strings = split
        text = _decode_strings(strings)
        return None if text is None else (text, counts)

    def _split(self, strings: bytes) -> list[bytes] | None:
        """Strings with all that is between them, one by one."""
        # To split at the whole of what is between two is to look for something long, which takes ten times as long as
        # to look for something short and to cut off the rest.
        return _cut((self.prefix + strings + self.suffix).split(BLANK + DATA), self.prefix, self.suffix, BLANK + DATA)


def _cut(events: list[bytes], prefix: bytes, suffix: bytes, between: bytes = b"") -> list[bytes] | None:
    """What is between prefix and suffix in each; None if one of them has not got both."""
    start, end = len(prefix), -len(suffix)
    strings = [event[start:end] for event in events]
    # Equal as a whole means equal one by one, since an event too short for its ends makes the whole longer.
    equal = prefix + (suffix + between + prefix).join(strings) + suffix == between.join(events)
    return strings if equal else None


def _decode_strings(strings: list[bytes]) -> str | None:
    """Decodes strings of JSON, given without their quotes, into one text; None if one is empty or no string."""
    if not all(strings):
        return None
    joined = b"".join(strings)
    if joined.isascii() and b'"' not in joined and b"\\" not in joined:
        return cast(str | None, decode(b'"' + joined + b'"'))
    literals = b'["' + b'","'.join(strings) + b'"]'
    # With no quotes but those around the strings, to decode them at once is to decode them one by one: a backslash
    # that hides one of them turns strings inside out up to the end, which is no JSON then.
    if literals.count(b'"') == 2 * len(strings):
        texts = decode(literals)
    else:
        texts = [decode(b'"' + string + b'"') for string in strings]
    return None if texts is None or None in texts else "".join(texts)


def decode(data: bytes) -> Any:
    """Decodes JSON; None if it is none."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
