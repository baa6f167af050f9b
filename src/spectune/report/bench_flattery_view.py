"""The flattery report on a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from pydantic import TypeAdapter
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from spectune.report import words
from spectune.report.bench_flattery import Flattery
from spectune.report.model import Interval
from spectune.report.terminal import WIDE

_HEADS = ("tok/s\nflattered", "tok/s\nyours", "times\n(95 %)", "a step\nflattered", "a step\nyours", "times\n")
_NARROWEST = 76
"""Columns from which numbers are kept in one line."""


def render_flattery_json(found: Flattery) -> str:
    """The report as JSON, indented."""
    return _adapter().dump_json(found, indent=2).decode() + "\n"


@cache
def _adapter() -> TypeAdapter[Flattery]:
    return TypeAdapter(Flattery)


def flattery_report(found: Flattery) -> list[RenderableType]:
    """A heading, the table, and what it means. Print each with soft wrapping, tables apart."""
    return [
        Text("flattering test (repetitive prompts, temperature 0, fixed length) against your workload", style="bold"),
        _Table(found),
        Text("tok/s per user; a step: tokens per verify step", style="dim"),
        *_failed(found),
        Text(found.meaning, style="bold"),
    ]


def _failed(found: Flattery) -> Iterator[Text]:
    for level in found.levels:
        if level.flattering_failed or level.asked_failed:
            text = (
                f"{level.cell}: {level.flattering_failed} flattering and {level.asked_failed} of your requests failed"
            )
            yield Text(text, style="yellow")


class _Table:
    def __init__(self, found: Flattery) -> None:
        self._found = found

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= WIDE
        table = Table(box=None, pad_edge=False, padding=(0, 2 if wide else 1, 0, 0))
        table.add_column("", overflow="fold")
        for head in _HEADS:
            table.add_column(head, justify="right", no_wrap=options.max_width >= _NARROWEST)
        number = words.plus_minus if wide else _value
        for level in self._found.levels:
            table.add_row(
                level.cell,
                number(level.flattering),
                number(level.asked),
                _times(level.ratio),
                *map(_length, (level.flattering_length, level.asked_length, level.length_ratio)),
            )
        yield table


def _value(speed: Interval | None) -> str:
    return words.number(speed.value if speed else None)


def _length(value: float | None) -> str:
    return words.NOTHING if value is None else f"{value:.2f}"


def _times(ratio: Interval | None) -> str:
    if ratio is None:
        return words.NOTHING
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.2f} (?)"
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
