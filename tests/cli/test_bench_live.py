from __future__ import annotations

import contextlib
import io
import re

from rich.console import Console

from spectune.cli.bench_live import LiveBench
from spectune.domain.workload import Level
from tests.support.bench_runs import cell


def console(terminal: bool) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=120, force_terminal=terminal, no_color=True), out


def plain(out: io.StringIO) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())


def test_a_line_a_level_without_a_terminal() -> None:
    screen, out = console(terminal=False)
    one, four = cell(), cell(30.0, Level(4))
    with LiveBench(screen, 3) as live:
        live.progress(one.measurement.cell, "12 requests")
        live.flattered(one)
        live.measured(one)
        live.measured(four)
    first, second, third = out.getvalue().splitlines()
    assert first == f"flattering test: {second}"
    assert second.startswith("1 user, model's own sampling: 50.0")
    assert third.startswith("4 users")


def test_a_terminal_sees_what_is_measured_and_what_is_done() -> None:
    screen, out = console(terminal=True)
    with LiveBench(screen, 2) as live:
        live.measured(cell())
        live.progress(cell(30.0, Level(4)).measurement.cell, "12 requests, 31.0 tok/s per user")
    text = plain(out)
    assert "2 of 2  4 users, model's own sampling: 12 requests, 31.0 tok/s per user" in text
    assert "50.0 ±2" in text


def test_an_interrupted_run_leaves_its_table() -> None:
    screen, out = console(terminal=True)
    with contextlib.suppress(KeyboardInterrupt), LiveBench(screen, 2) as live:
        live.measured(cell())
        raise KeyboardInterrupt
    assert plain(out).rstrip().splitlines()[-1].startswith("1 user, model's own sampling")
