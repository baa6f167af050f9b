from __future__ import annotations

import csv
import io

import pytest

from spectune.domain.workload import Arrival, Sampling
from spectune.report.bench_text import render_bench_csv, render_bench_markdown
from tests.support.bench_runs import BUSY, cell, rate, run


def test_csv_has_a_line_for_each_cell_and_domain() -> None:
    made = run(
        cell(goodput=1.5, doubts=[BUSY]), cell(level=rate(2, Arrival.GAMMA, 3), sampling=Sampling(0.7, ignore_eos=True))
    )
    lines = list(csv.DictReader(io.StringIO(render_bench_csv(made))))
    assert [line["domain"] for line in lines] == ["all", "chat", "code_edit"] * 2
    first, other = lines[0], lines[3]
    assert float(first["per-user_speed [tok/s]"]) == pytest.approx(50)
    assert float(first["per-user_speed_low [tok/s]"]) == pytest.approx(49)
    assert first["goodput_n"] == "20"
    assert first["time_to_first_token_p99_high [s]"] == "inf"
    assert (first["accept_length [tokens/step]"], first["requests_ok"], first["doubts"]) == ("2.0", "20", "busy-host")
    assert (first["temperature"], first["arrival"]) == ("", "")
    assert (other["temperature"], other["arrival"], other["fixed_length"]) == ("0.7", "gamma", "True")
    assert (other["cell"], other["level [users or req/s]"], other["level_kind"]) == ("r2gamma3 T0.7", "2", "rate")
    assert lines[1]["aggregate_speed [tok/s]"] == ""
    assert lines[1]["requests_ok"] == ""


def test_csv_text_is_no_formula() -> None:
    lines = csv.DictReader(io.StringIO(render_bench_csv(run(model='=HYPERLINK("x")'))))
    assert all(line["model"] == '\'=HYPERLINK("x")' for line in lines)


def test_markdown_is_a_table_with_equal_rows() -> None:
    text = render_bench_markdown(run(cell(goodput=1.5, doubts=[BUSY]), cell(level=rate(2)), model="a|b_c <x>"))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert {line.count("|") for line in rows} == {9}
    assert "## Load test of a\\|b\\_c \\<x\\>" in text
    assert "50.0 ±2\u00a0%" in rows[2]
    assert "- 1 user, model's own sampling: load average 9 on 2 cores" in text


def test_markdown_without_goodput_has_no_column_for_it() -> None:
    assert "goodput" not in render_bench_markdown(run(cell()))
