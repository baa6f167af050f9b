from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from spectune.report.data import build
from spectune.report.model import Cost, Interval
from spectune.report.terminal import terminal_report
from tests.report import sample


def shown(name: str, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(terminal_report(build(sample.HISTORIES[name](), "c1")))
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("name", sorted(sample.HISTORIES))
def test_it_fits_and_is_plain_without_a_terminal(name: str, width: int) -> None:
    text = shown(name, width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [80, 120])
def test_the_answer_and_its_doubts_are_there(width: int) -> None:
    text = " ".join(shown("decided", width).split())
    for part in (
        "Use draft k=3",
        "--spec-draft-n-max 3",
        "≈ draft k=4",
        "as it is",
        "Noise floor",
        "176 MiB → 188 MiB",
    ):
        assert part.replace("\u00a0", " ") in text.replace("\u00a0", " ")
    assert "50.1 ±" in text


def test_what_gets_slower_is_in_the_answer_the_largest_losses_first() -> None:
    data = build(sample.decided(), "c1")
    lost = tuple(Cost(f"aggregate speed, {n} users", "100 tok/s", f"{10 * n} tok/s") for n in (1, 2, 3, 4, 5))
    out = io.StringIO()
    Console(file=out, width=120, color_system=None).print(
        terminal_report(replace(data, answer=replace(data.answer, losses=lost)))
    )
    told = [line.strip("│ ") for line in out.getvalue().splitlines() if "slower: " in line]
    assert told[0] == "slower: aggregate speed, 1 users: 100 tok/s → 10 tok/s"
    assert told[3:] == ["slower: 2 more, in the report"]


@pytest.mark.parametrize("width", [60, 80, 100, 110, 120, 130, 160])
def test_a_gain_is_never_broken_in_two(width: int) -> None:
    data = build(sample.decided(), "c1")
    wide = Interval(2.24, 2.01, 2.47, 6, 0.95)
    best = tuple(replace(row, is_baseline=False, ratio=wide) for row in data.best)
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(terminal_report(replace(data, best=best)))
    text = out.getvalue()
    assert "+101" in text
    for line in text.splitlines():
        for part in line.split("+101")[1:]:
            assert part.startswith(" to +147\u00a0%"), line


def test_markup_in_text_is_shown_not_obeyed() -> None:
    data = build(sample.hostile(), "c1")
    out = io.StringIO()
    Console(file=out, width=120, color_system=None).print(terminal_report(data))
    assert "<script>alert" in out.getvalue()
