from __future__ import annotations

import pytest

from spectune.domain.deployment import Counters
from spectune.load import acceptance
from tests.load.records import record


def test_differences_of_counters() -> None:
    before = Counters(drafts=10, drafted=30, accepted=12, accepted_per_position=(6, 4, 2))
    after = Counters(drafts=110, drafted=330, accepted=162, accepted_per_position=(86, 54, 22))
    found = acceptance.from_counters(before, after)
    assert found is not None
    assert (found.drafts, found.drafted, found.accepted) == (100, 300, 150)
    assert found.per_position == pytest.approx((0.8, 0.5, 0.2))
    assert found.length == pytest.approx(2.5)
    assert found.rate == pytest.approx(0.5)


def test_positions_that_appear_later_start_from_zero() -> None:
    found = acceptance.from_counters(
        Counters(drafts=0, drafted=0, accepted=0),
        Counters(drafts=4, drafted=8, accepted=5, accepted_per_position=(3, 2)),
    )
    assert found is not None
    assert found.per_position == pytest.approx((0.75, 0.5))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, Counters(drafts=1, drafted=1, accepted=1)),
        (Counters(drafts=1, drafted=1, accepted=1), None),
        (Counters(), Counters(drafts=1, drafted=1, accepted=1)),
        (Counters(drafts=5, drafted=5, accepted=5), Counters(drafts=5, drafted=5, accepted=5)),
        (Counters(drafts=9, drafted=9, accepted=9), Counters(drafts=1, drafted=3, accepted=1)),
    ],
    ids=["no first page", "no second page", "not counted", "nothing drafted", "restarted in between"],
)
def test_no_acceptance_where_there_is_none(before: Counters | None, after: Counters | None) -> None:
    assert acceptance.from_counters(before, after) is None


def test_per_request_counts_give_the_length_over_all_steps() -> None:
    # 10 tokens of which 6 were drafted: 4 steps. 20 of which 5: 15 steps.
    records = [record(tokens=10, drafted=9, accepted=6), record(tokens=20, drafted=20, accepted=5), record(tokens=50)]
    found = acceptance.from_requests(records)
    assert found is not None
    assert (found.drafts, found.drafted, found.accepted) == (19, 29, 11)
    assert found.length == pytest.approx(30 / 19)
    assert "all steps" in found.source


def test_requests_without_drafts_give_nothing() -> None:
    assert acceptance.from_requests([record(tokens=5)]) is None
    assert acceptance.from_requests([]) is None
