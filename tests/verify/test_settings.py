"""Effective settings and limits."""

from __future__ import annotations

from spectune.verify import settings
from tests.verify.builders import CELLS, DRAFT, DRAFT_FLAGS, RATE_CELL, asked, seen
from tests.verify.cases.settings import COUNTED_TWICE


def test_a_finding_names_only_what_is_wrong() -> None:
    wanted = asked(flags=("--a", "1"), knobs={"a": 1, "b": 2})
    found = settings.settings_effective(wanted, seen(settings={"b": 3}, sources={"b": "log"}))
    assert found.asked == "b=2"
    assert found.seen == "b=3 (log)"


def test_a_difference_that_no_translation_names_is_not_excused() -> None:
    found = settings.settings_effective(COUNTED_TWICE, seen(settings={"draft-tokens": 5}))
    assert "bonus" not in found.seen


def test_the_largest_level_counts() -> None:
    assert asked().most_users == 4
    assert asked(cells=(RATE_CELL, CELLS[0])).most_users == 1
    assert DRAFT_FLAGS[1] == "draft-simple"
    assert asked(DRAFT).speculates
