from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from spectune.domain.bench_run import Obstacle
from spectune.domain.measurement import Outcome
from spectune.domain.workload import Level, Sampling
from spectune.judge.two_runs import compare_runs
from spectune.report import bench_words
from spectune.report.bench_compare import comparison_report, render_comparison_json
from spectune.report.bench_table import BenchTable, bench_report, doubt_lines
from tests.support.bench_runs import BUSY, cell, rate, run

FAILED = replace(cell().measurement, requests={Outcome.OK: 38, Outcome.TIMEOUT_IDLE: 2, Outcome.CANCELLED: 7})
MEASUREMENTS = [
    cell(412.3, Level(16), goodput=11.25).measurement,
    cell(sampling=Sampling(0.7, ignore_eos=True), accepted=None, half=30.0).measurement,
    cell(level=rate(2.5)).measurement,
    FAILED,
]


def shown(part: object, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(part)
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 99, 120])
def test_the_table_fits(width: int) -> None:
    text = shown(BenchTable(MEASUREMENTS), width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [80, 120])
def test_every_number_is_there(width: int) -> None:
    text = shown(BenchTable(MEASUREMENTS), width).replace("\u00a0", " ").replace("\u202f", " ")
    for part in ("412 ±2 %", "6 597", "50.0, 80.0", "20.0, 24.0", "2.00", "11.2", "2 failed", "±?", "–"):
        assert part in text, part
    for part in ("16 users", "2.5 req/s", "fixed", "0.7"):
        assert part in " ".join(text.split()), part


def test_a_doubt_that_several_levels_have_is_told_once() -> None:
    lines = doubt_lines([cell(doubts=[BUSY]).measurement, cell(level=Level(4), doubts=[BUSY]).measurement])
    (line,) = (text.plain for text in lines)
    assert line.startswith("doubt, 1 user, model's own sampling; 4 users, model's own sampling: load average")
    assert "Stop other programs." in line


def test_the_head_says_what_was_measured() -> None:
    head = str(bench_report(run())[0])
    for part in ("m on llama.cpp b1", "builtin", "100 prompts", "95 % intervals"):
        assert part in head
    assert " on " not in str(bench_report(run(engine="", engine_version=""))[0])


def test_a_cell_in_one_line() -> None:
    line = bench_words.line(FAILED).replace("\u00a0", " ")
    assert line.startswith("1 user, model's own sampling: 50.0 ±2 % tok/s per user")
    assert "38, 2 failed" in line
    assert "2.00 tokens a step" in line


def test_requests_that_spectune_cancelled_are_no_failures() -> None:
    assert bench_words.failures(FAILED) == 2
    assert bench_words.requests(cell().measurement) == "20"


@pytest.mark.parametrize("width", [80, 120])
def test_a_comparison_says_what_it_found(width: int) -> None:
    before = run(cell(goodput=2.0), cell(level=Level(4)), keep_records=True)
    after = run(
        cell(65.0, goodput=2.0), cell(level=Level(4), sampling=Sampling(0.5)), keep_records=True, engine_version="b2"
    )
    parts = comparison_report(compare_runs(before, after), "a.json", "b.json")
    text = " ".join("".join(shown(part, width) for part in parts).replace("\u00a0", " ").split())
    for part in (
        "b.json against a.json", "differs: engine version: b1 and b2", "+30 % (+25 to +36 %)", "faster",
        "no difference shown", "not comparable", "4 users: other sampling: model's own and temperature 0.5",
        "6 words hold together at 95 % (Holm)", "1.5 % (standard deviation)",
    ):  # fmt: skip
        assert part in text, part
    assert ("20 pairs" in text) == (width >= 100)


@pytest.mark.parametrize("width", [80, 120])
def test_a_comparison_fits(width: int) -> None:
    before, after = run(cell(goodput=2.0)), run(cell(95.0, goodput=2.0))
    for part in comparison_report(compare_runs(before, after), "a.json", "b.json")[1:2]:
        assert max(cell_len(line) for line in shown(part, width).splitlines()) <= width


def test_what_stands_in_the_way_is_said_first() -> None:
    other = compare_runs(run(), run(url="http://gpu7:80"))
    assert "not comparable: other machine" in str(comparison_report(other, "a", "b")[1])
    despite = compare_runs(run(), run(url="http://gpu7:80"), despite=[Obstacle.MACHINE])
    assert "overlooked: other machine" in str(comparison_report(despite, "a", "b")[1])


def test_a_comparison_as_json_is_json() -> None:
    text = render_comparison_json(compare_runs(run(), run()))
    assert '"word": "no difference shown"' in text
    assert "Infinity" not in text.replace('"Infinity"', "")
