"""Drafting under load."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.asked import Asked
from spectune.domain.deployment import Counters
from spectune.domain.finding import Status
from spectune.domain.measurement import Acceptance
from spectune.domain.trial import MeasuredCell
from spectune.verify import drafting
from spectune.verify.observed import Observed
from tests.verify.builders import BASELINE, NGRAM, POOL, asked, cell, drafts, loaded, record, seen

OK, VIOLATED, UNKNOWN = Status.OK, Status.VIOLATED, Status.UNKNOWN
GOOD = cell(drafts(100, 0.5, 0.7, 0.5, 0.3))
ZERO = cell(counters=(Counters(drafts=0, drafted=0, accepted=0), Counters(drafts=0, drafted=0, accepted=0)))
COUNTED = cell(counters=(Counters(drafts=5, drafted=15, accepted=9), Counters(drafts=65, drafted=195, accepted=99)))
SENT = cell(records=(record("a", 90, 45), record("b", None), record("c", 90, 45)))
SILENT = cell(records=(record("a"), record("b")))
NONE = asked(BASELINE, ())
TEXT = asked(NGRAM, ())


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


@pytest.mark.parametrize(
    ("wanted", "observed", "status"),
    [
        (asked(), loaded(GOOD, COUNTED, SENT), OK),
        (asked(), loaded(GOOD, ZERO), VIOLATED),
        (asked(), loaded(ZERO, ZERO), VIOLATED),
        (asked(), loaded(SILENT), UNKNOWN),
        (asked(), loaded(), UNKNOWN),
        (TEXT, loaded(GOOD, ZERO), OK),
        (TEXT, loaded(ZERO, ZERO), VIOLATED),
        (NONE, loaded(ZERO), OK),
        (NONE, loaded(SILENT, base=seen(speculating=False)), OK),
        (NONE, loaded(SILENT, base=seen(speculating=None)), UNKNOWN),
        (NONE, loaded(GOOD), VIOLATED),
    ],
)
def test_drafting_happened(wanted: Asked, observed: Observed, status: Status) -> None:
    assert drafting.happened(wanted, observed).status is status


def test_never_engaged_is_said_in_words() -> None:
    assert "never engaged in cell 2" in drafting.happened(asked(), loaded(GOOD, ZERO)).seen
    assert "never engaged: 0 tokens" in drafting.happened(TEXT, loaded(ZERO)).seen


@pytest.mark.parametrize(
    ("observed", "status"),
    [
        (loaded(GOOD), OK),
        (loaded(cell(drafts(100, 0.5, depth=4))), VIOLATED),
        (loaded(cell(drafts(100, 0.5, depth=1))), OK),
        (loaded(SENT), UNKNOWN),
        (loaded(), UNKNOWN),
    ],
)
def test_depth_kept(observed: Observed, status: Status) -> None:
    assert drafting.depth_kept(asked(), observed).status is status


@pytest.mark.parametrize(
    ("observed", "status"),
    [
        (loaded(GOOD), OK),
        (loaded(cell(drafts(200, 0.01, 0.02, 0.0, 0.0))), VIOLATED),
        (loaded(GOOD, cell(drafts(200, 0.01, 0.02, 0.0, 0.0))), VIOLATED),
        (loaded(cell(drafts(60, 0.03, 0.08, 0.0, 0.0))), UNKNOWN),
        (loaded(cell(drafts(49, 0.01, 0.02, 0.0, 0.0))), UNKNOWN),
        (loaded(cell(drafts(30, 0.0, 0.0)), cell(drafts(30, 0.0, 0.0))), VIOLATED),
        (loaded(COUNTED), OK),
        (loaded(SENT), OK),
        (loaded(cell(Acceptance(300, 900, 9))), VIOLATED),
        (loaded(cell(Acceptance(300, 900, 60))), UNKNOWN),
        (loaded(SILENT), UNKNOWN),
        (loaded(), UNKNOWN),
    ],
    ids=[
        "sound",
        "broken",
        "broken in one cell",
        "below, not surely",
        "few drafts",
        "few in each cell, broken together",
        "mean position bounds it from below",
        "from requests alone",
        "accepted tokens bound it from above",
        "bounds too wide",
        "no counts",
        "no cells",
    ],
)
def test_head_sound(observed: Observed, status: Status) -> None:
    assert drafting.head_sound(asked(), observed).status is status


def pool_cell(rate: float, drafts_: int, *names: str) -> MeasuredCell:
    drafted = drafts_ * 64
    return replace(cell(Acceptance(drafts_, drafted, round(drafted * rate))), records=tuple(record(n) for n in names))


@pytest.mark.parametrize(
    ("observed", "status"),
    [
        (loaded(pool_cell(0.6, 300, "a", "b")), OK),
        (loaded(pool_cell(0.999, 300, "a", "b")), UNKNOWN),
        (loaded(pool_cell(1.0, 199, "a", "b")), OK),
        (loaded(pool_cell(0.6, 300, "a"), pool_cell(0.6, 300, "a")), UNKNOWN),
        (loaded(), UNKNOWN),
        (loaded(ZERO), OK),
    ],
    ids=["sound", "too good", "too few to say", "repeated prompt", "no cells", "nothing drafted"],
)
def test_not_suspicious(observed: Observed, status: Status) -> None:
    assert drafting.not_suspicious(asked(POOL, ()), observed).status is status
