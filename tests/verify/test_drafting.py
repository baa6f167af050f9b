"""Drafting under load: where the counts come from."""

from __future__ import annotations

import pytest

from spectune.domain.trial import MeasuredCell
from spectune.verify import drafting
from tests.verify.builders import cell, drafts
from tests.verify.cases.drafting import COUNTED, GOOD, SENT, SILENT


@pytest.mark.parametrize(
    ("measured", "counts"),
    [
        (GOOD, drafting.Drafting(100, 300, 150, 70.0)),
        (COUNTED, drafting.Drafting(60, 180, 90)),
        (SENT, drafting.Drafting(None, 180, 90)),
        (SILENT, None),
        (cell(drafts(10, 0.5, float("nan"))), drafting.Drafting(10, 30, 15)),
        (cell(drafts(10, 0.5)), drafting.Drafting(10, 30, 15)),
    ],
    ids=["acceptance", "counters", "requests", "nothing", "no number", "no positions"],
)
def test_counts(measured: MeasuredCell, counts: drafting.Drafting | None) -> None:
    assert drafting.drafting(measured) == counts
