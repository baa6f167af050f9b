"""Streams for tests: recorded ones, and events made by hand."""

from __future__ import annotations

import json
from array import array
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings

from spectune.load.sse import Piece
from spectune.load.stream import ParsedStream, parse_stream

# A busy machine is no reason to fail.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

CASES = Path(__file__).parents[1] / "cases" / "streams"


def load(name: str) -> list[Piece]:
    """A recording in one piece per event; those without times are numbered."""
    raw = (CASES / f"{name}.sse").read_bytes()
    if raw.startswith(b"data:"):
        return list(enumerate(event + b"\n\n" for event in raw.split(b"\n\n") if event))
    timed = (line.split(b"\t", 1) for line in raw.splitlines())
    return [(round(float(seconds) * 1e9), line + b"\n\n") for seconds, line in timed]


def event(message: dict[str, Any], end: bytes = b"\n\n") -> bytes:
    return b"data: " + json.dumps(message, ensure_ascii=False).encode() + end


def delta(text: str | None = None, *, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    said = fields if text is None else {"content": text, **fields}
    return {"id": "a", "model": "m", "choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def parse(*events: bytes) -> ParsedStream:
    """Each event in its own piece, stamped 0, 1, 2 ..."""
    return parse_stream(enumerate(events))


def cut(data: bytes, at: list[int]) -> list[Piece]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in at), len(data)]
    return [(i, data[start:end]) for i, (start, end) in enumerate(pairwise(bounds))]


def without_times(parsed: ParsedStream) -> ParsedStream:
    return replace(
        parsed, first_token_ns=None, last_token_ns=None, chunk_stamps_ns=array("q", [0]) * len(parsed.chunk_stamps_ns)
    )
