"""Which prompts a deployment is asked: all the same, but for the pairs of a confirmation."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.history import History
from spectune.domain.trial import MeasuredCell, Purpose, Trial
from spectune.domain.unasked import asked_before, unasked
from spectune.domain.workload import Message, Prompt
from tests.judge.lab import BASELINE, Lab, draft, flat, make_spec, record

CELL = make_spec().cells[0].key


def prompts(*ids: str, sessions: bool = False) -> list[Prompt]:
    """With sessions, "a1" and "a2" are turns of a."""
    return [Prompt(name, "chat", (Message("user", name),), 8, session=name[0] if sessions else "") for name in ids]


def dealt(lane: list[Prompt], asked: set[str]) -> list[str]:
    return [prompt.id for prompt in unasked(iter(lane), asked)]


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        (set(), ["a", "b", "c", "d"]),
        ({"a", "b"}, ["c", "d", "a", "b"]),
        ({"b"}, ["a", "c", "d", "b"]),
        ({"a", "b", "c", "d"}, ["a", "b", "c", "d"]),
        ({"z"}, ["a", "b", "c", "d"]),
    ],
)
def test_what_was_not_asked_comes_first_and_the_rest_again(asked: set[str], left: list[str]) -> None:
    assert dealt(prompts("a", "b", "c", "d"), asked) == left


def test_an_empty_lane_stays_empty() -> None:
    assert dealt([], {"a"}) == []


def test_turns_of_a_session_that_has_begun_stay_together() -> None:
    lane = prompts("a1", "a2", "b1", "a3", "b2", sessions=True)
    assert dealt(lane, {"a1"}) == ["b1", "b2", "a1", "a2", "a3"]


def test_a_trace_begins_anew() -> None:
    lane = [replace(prompt, due_s=float(place)) for place, prompt in enumerate(prompts("a", "b", "c"))]
    assert dealt(lane, {"a"}) == ["a", "b", "c"]


def test_an_endless_lane_goes_on() -> None:
    endless = (prompt for number in range(10**9) for prompt in prompts(f"p{number}"))
    assert [p.id for p in islice(unasked(endless, {"p0", "p1", "p2"}), 2)] == ["p3", "p4"]


@given(st.lists(st.text("abc", min_size=1, max_size=3), unique=True), st.sets(st.text("abc", min_size=1, max_size=3)))
def test_no_prompt_is_lost_or_doubled(ids: list[str], asked: set[str]) -> None:
    left = dealt(prompts(*ids), asked)
    fresh = [name for name in ids if name not in asked]
    assert sorted(left) == sorted(ids)
    assert left[: len(fresh)] == fresh


def confirmed(*, beside: bool = False) -> History:
    """Two baselines, an exploration, and two pairs; trial n was asked the prompt "n"."""
    lab = Lab(make_spec())
    order = [BASELINE, BASELINE, draft(3), BASELINE, draft(3), draft(3), BASELINE]
    purposes = [Purpose.BASELINE, Purpose.BASELINE, Purpose.EXPLORE, *4 * [Purpose.CONFIRM]]
    for number, (tried, purpose) in enumerate(zip(order, purposes, strict=True), start=1):
        lab.trial(tried, purpose, flat(), cells={CELL: asking(lab, f"{number}")})
    partners = {4: 5, 5: 4, 6: 7, 7: 6} if beside else {}
    trials = {n: replace(t, beside=partners.get(n)) for n, t in lab.history.trials.items()}
    return replace(lab.history, trials=trials)


def asking(lab: Lab, prompt: str) -> MeasuredCell:
    return replace(lab.cells(flat())[CELL], records=(record(prompt, "chat", 40.0),))


@pytest.mark.parametrize("beside", [False, True])
def test_each_pair_is_asked_what_nobody_was_before_it(beside: bool) -> None:
    history = confirmed(beside=beside)
    found = {number: asked_before(history, number, CELL) for number in history.trials}
    assert found == {
        1: set(), 2: set(), 3: set(),
        4: {"1", "2", "3"}, 5: {"1", "2", "3"},
        6: {"1", "2", "3", "4", "5"}, 7: {"1", "2", "3", "4", "5"},
    }  # fmt: skip


def test_a_trial_that_is_tried_again_is_asked_the_same_again() -> None:
    history = confirmed()
    cut: dict[int, Trial] = {n: t for n, t in history.trials.items() if n <= 6}
    assert asked_before(replace(history, trials=cut), 6, CELL) == {"1", "2", "3", "4", "5"}


def test_a_cell_that_nobody_measured_has_asked_nothing() -> None:
    assert asked_before(confirmed(), 7, "c99 T0") == set()
