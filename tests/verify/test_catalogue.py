"""The table of checks, and the page made from it."""

from __future__ import annotations

import ast
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


def test_every_look_has_its_tests() -> None:
    """Each function that answers a check is called by a test of its own."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    called = {
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in ast.walk(ast.parse(source.replace("from __future__ import annotations", "")))
        if isinstance(node, ast.Call)
    }
    assert {check.look.__name__ for check in CHECKS} <= called


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    assert page == as_markdown(), "run: python -m spectune.verify > docs/checks.md"
