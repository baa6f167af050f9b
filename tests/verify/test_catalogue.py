"""The table of checks, and the page made from it."""

from __future__ import annotations

from pathlib import Path

from spectune.verify.catalogue import CHECKS, as_markdown

ROOT = Path(__file__).parents[2]


def test_names_are_stable_keys() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    assert all(name == name.lower() and " " not in name for name in names)


def test_every_check_explains_itself() -> None:
    for check in CHECKS:
        assert check.asks.endswith("?"), check.name
        assert check.why.endswith("."), check.name
        assert check.advice.endswith("."), check.name
        assert check.violation, check.name
        assert "|" not in check.asks + check.why + check.violation + check.advice, check.name


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    assert page == as_markdown(), "run: python -m spectune.verify > docs/checks.md"
