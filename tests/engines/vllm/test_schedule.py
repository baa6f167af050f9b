from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.errors import InputError
from spectune.engines.vllm import BatchDepth, deepest, schedule
from spectune.engines.vllm.schedule import MOST_DEPTH, parse


def test_a_schedule() -> None:
    text = schedule([BatchDepth(16, 1), BatchDepth(2, 3), BatchDepth(32, 0)], 64)
    assert text == "[[1, 15, 3], [16, 31, 1], [32, 64, 0]]"
    assert deepest(text) == 3
    assert parse(text, "x") == ((1, 15, 3), (16, 31, 1), (32, 64, 0))


def test_neighbours_alike_are_one_range() -> None:
    rows = [BatchDepth(1, 3), BatchDepth(4, 3), BatchDepth(16, 1), BatchDepth(32, 3)]
    assert schedule(rows, 40) == "[[1, 15, 3], [16, 31, 1], [32, 40, 3]]"


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        ([], "no batch size was measured"),
        ([BatchDepth(1, 3), BatchDepth(1, 2)], "batch size 1 is given twice"),
        ([BatchDepth(1, 3), BatchDepth(1, 3)], "batch size 1 is given twice"),
        ([BatchDepth(0, 3)], "batch size must be 1 to 8, got 0"),
        ([BatchDepth(1, 3), BatchDepth(9, 2)], "batch size must be 1 to 8, got 9"),
        ([BatchDepth(1, -1)], "depth must be 0 to 64 at batch size 1, got -1"),
        ([BatchDepth(1, 65)], "depth must be 0 to 64"),
        ([BatchDepth(1, 2), BatchDepth(4, 2)], "the best depth is 2 everywhere"),
        ([BatchDepth(1, 0)], "the best depth is 0 everywhere"),
    ],
)
def test_no_schedule(measured: list[BatchDepth], message: str) -> None:
    with pytest.raises(InputError, match=message):
        schedule(measured, 8)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[[1, 2, 3]", "must be JSON"),
        ("[" * 100000, "must be JSON"),
        ("{}", "must be a list"),
        ("[]", "must be a list"),
        ("[[1, 2]]", "each entry is"),
        ("[[1, 2, 3, 4]]", "each entry is"),
        ("[[1, 2, true]]", "each entry is"),
        ("[[1, 2, 2.0]]", "each entry is"),
        ("[3]", "each entry is"),
        ("[[0, 2, 3]]", "must run upwards"),
        ("[[3, 2, 3]]", "must run upwards"),
        ("[[1, 2, -1]]", "at least 0"),
        ("[[2, 4, 3]]", "must begin at 1, it begins at 2"),
        ("[[1, 4, 3], [4, 8, 1]]", r"\[1, 4, 3\] and \[4, 8, 1\] overlap"),
        ("[[1, 4, 0], [5, 8, 0]]", "drafts nothing"),
    ],
    ids=lambda value: value[:30],
)
def test_what_vllm_would_refuse(value: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(value, "candidate")


@given(
    st.dictionaries(st.integers(1, 200), st.integers(0, MOST_DEPTH), min_size=2).filter(
        lambda rows: len(set(rows.values())) > 1
    ),
    st.integers(1, 300),
)
def test_every_size_has_the_depth_that_was_measured_below_it(rows: dict[int, int], size: int) -> None:
    text = schedule([BatchDepth(batch, depth) for batch, depth in rows.items()], 200)
    found = [depth for first, last, depth in json.loads(text) if first <= size <= last]
    below = [batch for batch in rows if batch <= size]
    expected = rows[max(below) if below else min(rows)]
    assert found == ([expected] if size <= 200 else [])
    assert parse(text, "x")
    assert deepest(text) == max(rows.values())


@given(st.text())
def test_any_text_is_a_schedule_or_refused(value: str) -> None:
    try:
        first = parse(value, "candidate")[0][0]
    except InputError:
        first = 1
    assert first == 1
