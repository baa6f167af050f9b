"""What may differ between two arms although nobody asked."""

from __future__ import annotations

from spectune.verify.parity import (
    ANNOUNCED_AS,
    CONSEQUENCES,
    SAME_IN_BOTH_ARMS,
    captures_graphs,
    differs,
    scheduler_parity,
)
from tests.verify.builders import BASELINE, RATE_CELL, asked
from tests.verify.cases.parity import FIRST, MTP, PAGES, beside, runs


def test_the_baseline_has_no_other_arm() -> None:
    assert differs(beside({}))
    assert not differs(beside({}, candidate=BASELINE))


def test_both_values_and_the_reason_are_named() -> None:
    found = scheduler_parity(beside({"page-size": 1}), runs({"page-size": 64}))
    assert found.seen == "page-size is 64, in the baseline 1"
    explained = scheduler_parity(beside({"page-size": 1}), runs({"page-size": 64}, PAGES))
    assert explained.seen == "page-size is 64, in the baseline 1: the kernels want it"


def test_reasons_are_for_settings_that_are_compared() -> None:
    assert all(rule.name in SAME_IN_BOTH_ARMS[rule.engine] for rule in CONSEQUENCES)
    assert all(any(name in names for names in SAME_IN_BOTH_ARMS.values()) for name in ANNOUNCED_AS)


def test_graphs_are_asked_about_where_there_are_graphs_and_users() -> None:
    assert captures_graphs(FIRST)
    assert not captures_graphs(asked())
    assert not captures_graphs(asked(MTP, (), engine="sglang", cells=(RATE_CELL,)))
