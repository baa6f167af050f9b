from __future__ import annotations

import re
from dataclasses import replace

import pytest

from spectune.report.data import build
from spectune.report.markdown import block, code, render_markdown, table, text
from spectune.report.model import Setting
from tests.report import sample


@pytest.mark.parametrize("name", sorted(sample.HISTORIES))
def test_every_campaign_has_a_page_with_square_tables(name: str) -> None:
    page = render_markdown(build(sample.HISTORIES[name](), "c1"))
    assert page.startswith("# ")
    for rows in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", row)) for row in rows.splitlines()}
        assert len(widths) == 1, rows


def test_it_says_what_the_page_says() -> None:
    page = render_markdown(build(sample.decided(), "c1"))
    for part in ("# Use draft k=3", "--spec-draft-n-max 3", "**draft k=3**", "≈ draft k=4", "INCONCLUSIVE", "INVALID"):
        assert part in page
    assert page.count("### Trial ") == 12


def test_a_setting_that_stays_is_listed_once() -> None:
    data = build(sample.decided(), "c1")
    first, second, *rest = (trial for trial in data.trials if trial.command)
    many = tuple(Setting(f"flag-{number}", number, "log") for number in range(100))
    now = (*many[:99], Setting("flag-99", 7, "log"), Setting("flag-100", 1, "log"))
    others = tuple(replace(trial, settings=()) for trial in rest)
    trials = (replace(first, settings=many), replace(second, settings=now), *others)
    page = render_markdown(replace(data, trials=trials))
    assert page.count("- flag-42 = ") == 1
    assert page.count("- flag-99 = ") == 2
    assert "- flag-100 = `1`" in page
    assert f"- 99 more settings as in trial {first.number}" in page


def test_hostile_text_is_no_markup() -> None:
    page = render_markdown(build(sample.hostile(), "c1"))
    outside = re.sub(r"```.*?```|`[^`\n]*`", "", page, flags=re.DOTALL)
    assert "<script>" not in outside
    assert "<img" not in outside


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a|b", "a\\|b"),
        ("line\nbreak", "line break"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("*x* _y_ `z` [l](u)", "\\*x\\* \\_y\\_ \\`z\\` \\[l\\](u)"),
    ],
)
def test_text_is_escaped(raw: str, shown: str) -> None:
    assert text(raw) == shown


def test_code_outlasts_its_own_ticks() -> None:
    assert code("a`b") == "``a`b``"
    assert code("`a") == "`` `a ``"
    assert block("x\n```\ny").startswith("````sh\n")


def test_numbers_are_aligned_to_the_right() -> None:
    assert table(["a", "b"], [["x", "1"]], 1) == "| a | b |\n| --- | ---: |\n| x | 1 |"
