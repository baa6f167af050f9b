"""What dominates what."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.frontier import Point, frontier

BASE = Point("a", "g", 10.0, 100.0, 1000)


@pytest.mark.parametrize(
    ("other", "dominated"),
    [
        (replace(BASE, candidate="b"), False),
        (replace(BASE, candidate="b", per_user=11.0), True),
        (replace(BASE, candidate="b", aggregate=101.0), True),
        (replace(BASE, candidate="b", kv_tokens=1001), True),
        (replace(BASE, candidate="b", per_user=11.0, kv_tokens=999), False),
        (replace(BASE, candidate="b", per_user=11.0, kv_tokens=None), True),
        (replace(BASE, candidate="b", kv_tokens=None), False),
        (replace(BASE, candidate="b", group="h", per_user=11.0), False),
    ],
    ids=["equal", "faster", "more", "roomier", "a trade", "room not told", "nothing better", "another load"],
)
def test_dominated(other: Point, dominated: bool) -> None:
    assert [point.dominated for point in frontier([BASE, other])] == [dominated, False]


NUMBERS = st.integers(1, 4)
POINTS = st.lists(st.builds(Point, st.just("c"), st.sampled_from("gh"), NUMBERS, NUMBERS, NUMBERS), max_size=12)


@given(POINTS)
def test_whoever_is_dominated_is_dominated_by_someone_of_the_frontier(points: list[Point]) -> None:
    marked = frontier(points)
    best = [point for point in marked if not point.dominated]
    assert {point.group for point in best} == {point.group for point in points}
    for point in marked:
        assert point.dominated == any(other.dominates(point) for other in best if other.group == point.group)


@given(POINTS)
def test_marks_of_before_do_not_matter(points: list[Point]) -> None:
    marked = frontier(points)
    assert frontier(replace(point, dominated=True) for point in marked) == marked
