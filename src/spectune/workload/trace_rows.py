"""Rows of recorded traces, in the three published forms: when a request came, how long it was and its answer was.

- Mooncake: JSON lines {"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [...]}; each id
  names one block of 512 prompt tokens together with everything before it, so that equal ids are a shared prefix.
- Azure LLM inference: CSV with TIMESTAMP (date and time), ContextTokens, GeneratedTokens.
- BurstGPT: CSV with Timestamp (s), Model, Request tokens, Response tokens, Total tokens, Log Type.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from spectune.workload.problems import BadRecord

BLOCK_TOKENS = 512
"""Prompt tokens that one Mooncake hash id stands for."""

_MOST_TOKENS = 10_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """One recorded request.

    Attributes:
        at_s: when it came, seconds on the trace's own clock.
        input, output: tokens of prompt and answer; output 0 is a request that got no answer.
        blocks: hash ids of the prompt's blocks; empty where the trace tells nothing of shared prefixes.
        domain: kind of request, as far as the trace tells.
    """

    at_s: float
    input: int
    output: int
    blocks: tuple[str, ...] = ()
    domain: str = "trace"


Parse = Callable[[bytes], Row]
"""Reads one line, or raises BadRecord."""


@dataclass(frozen=True, slots=True)
class Format:
    """A trace format.

    Attributes:
        expected: what a line looks like, for messages.
        columns: a CSV's columns that are needed, lower case; empty for JSON lines.
        parser: given where each column is, makes what reads a line.
    """

    expected: str
    columns: tuple[str, ...]
    parser: Callable[[Mapping[str, int]], Parse]


def _mooncake(columns: Mapping[str, int]) -> Parse:
    return _mooncake_row


def _mooncake_row(line: bytes) -> Row:
    try:
        entry: Any = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadRecord("not JSON") from error
    if not isinstance(entry, dict):
        raise BadRecord("not a JSON object")
    blocks = entry.get("hash_ids") or []
    if not isinstance(blocks, list) or not all(isinstance(block, int | str) for block in blocks):
        raise BadRecord("hash_ids is not a list of numbers")
    return Row(
        _seconds(entry.get("timestamp"), "timestamp") / 1000,
        _tokens(entry.get("input_length"), "input_length", 1),
        _tokens(entry.get("output_length"), "output_length", 0),
        tuple(map(str, blocks)),
    )


def _azure(columns: Mapping[str, int]) -> Parse:
    def parse(line: bytes) -> Row:
        cells = split_csv(line)
        when = _cell(cells, columns, "timestamp")
        try:
            at = datetime.fromisoformat(when)
        except ValueError as error:
            raise BadRecord(f"TIMESTAMP {when!r} is no date and time") from error
        return Row(
            (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp(),
            _tokens(_cell(cells, columns, "contexttokens"), "ContextTokens", 1),
            _tokens(_cell(cells, columns, "generatedtokens"), "GeneratedTokens", 0),
        )

    return parse


def _burstgpt(columns: Mapping[str, int]) -> Parse:
    def parse(line: bytes) -> Row:
        cells = split_csv(line)
        log = _cell(cells, columns, "log type") if "log type" in columns else ""
        return Row(
            _seconds(_cell(cells, columns, "timestamp"), "Timestamp"),
            _tokens(_cell(cells, columns, "request tokens"), "Request tokens", 1),
            _tokens(_cell(cells, columns, "response tokens"), "Response tokens", 0),
            domain=log.lower().removesuffix(" log").strip() or "trace",
        )

    return parse


FORMATS: Mapping[str, Format] = {
    "mooncake": Format(
        'Lines like {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}.',
        (),
        _mooncake,
    ),
    "azure": Format(
        "A header TIMESTAMP,ContextTokens,GeneratedTokens and lines like 2023-11-16 18:15:46.68,374,44.",
        ("timestamp", "contexttokens", "generatedtokens"),
        _azure,
    ),
    "burstgpt": Format(
        "A header Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type "
        "and lines like 5,ChatGPT,472,18,490,Conversation log.",
        ("timestamp", "request tokens", "response tokens"),
        _burstgpt,
    ),
}


def columns_of(header: bytes) -> dict[str, int]:
    """Column names of a CSV header, lower case -> place."""
    try:
        return {name.strip().lower(): place for place, name in enumerate(split_csv(header))}
    except BadRecord:
        return {}


def split_csv(line: bytes) -> Sequence[str]:
    """The cells of one line.

    Raises:
        BadRecord: when it is not text.
    """
    try:
        return next(csv.reader([line.decode()]), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadRecord("not CSV text") from error


def _cell(cells: Sequence[str], columns: Mapping[str, int], name: str) -> str:
    place = columns[name]
    if place >= len(cells):
        raise BadRecord(f"{len(cells)} columns; {name!r} is missing")
    return cells[place].strip()


def _tokens(value: Any, name: str, least: int) -> int:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadRecord(f"{name} is not a number of tokens") from None
    if not number.is_integer() or not least <= number <= _MOST_TOKENS:
        raise BadRecord(f"{name} is {value}; expected {least} to {_MOST_TOKENS} tokens")
    return int(number)


def _seconds(value: Any, name: str) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        raise BadRecord(f"{name} is not a number") from None
    if not math.isfinite(seconds):
        raise BadRecord(f"{name} is {value}")
    return seconds
