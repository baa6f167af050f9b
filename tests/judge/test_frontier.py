"""The frontier over three quantities."""

from __future__ import annotations

import pytest

from spectune.domain.deployment import Capacity
from spectune.domain.measurement import Doubt
from spectune.domain.trial import Purpose, TrialState
from spectune.judge.frontier import frontier
from tests.judge.lab import BASELINE, Lab, aggregate_cells, draft, flat, make_spec


def add(lab: Lab, depth: int, speed: float, kv: int | None, state: TrialState = TrialState.VALID) -> None:
    lab.trial(
        draft(depth) if depth else BASELINE,
        Purpose.EXPLORE,
        flat(),
        cells=aggregate_cells(lab, speed, 0.01),
        capacity=Capacity(kv_tokens=kv),
        state=state,
    )


def dominated(lab: Lab) -> dict[str, bool]:
    return {p.candidate.label: p.dominated for p in frontier(lab.history.finished) if p.level.value == 1}


def test_slower_and_smaller_is_dominated_and_equal_is_not() -> None:
    lab = Lab(make_spec())
    add(lab, 0, 40.0, 1000)
    add(lab, 1, 50.0, 1000)
    add(lab, 2, 50.0, 1000)
    add(lab, 3, 60.0, 500)
    add(lab, 4, 55.0, 400)
    assert dominated(lab) == {
        "none": True, "draft k=1": False, "draft k=2": False, "draft k=3": False, "draft k=4": True
    }  # fmt: skip


def test_unknown_room_neither_dominates_nor_protects() -> None:
    lab = Lab(make_spec())
    add(lab, 0, 40.0, 1000)
    add(lab, 1, 50.0, None)
    assert dominated(lab) == {"none": True, "draft k=1": False}


def test_trials_of_a_candidate_are_averaged_and_unusable_ones_left_out() -> None:
    lab = Lab(make_spec())
    add(lab, 1, 40.0, 1000)
    add(lab, 1, 90.0, 900)
    add(lab, 1, 9000.0, 900, TrialState.INVALID)
    doubt = Doubt("late", "late", "", fatal=True)
    lab.trial(draft(1), Purpose.EXPLORE, flat(), cells=aggregate_cells(lab, 9000.0, 0.01, [doubt]))
    lab.trial(draft(1), Purpose.EXPLORE, flat(), cells=lab.cells(flat()))
    points = frontier(lab.history.finished)
    assert [point.level.value for point in points] == [1, 4]
    assert points[0].per_user_tok_s == pytest.approx(60.0)
    assert points[0].kv_tokens == 900
    assert points[0].trials == (1, 2)


def test_no_trials_no_points() -> None:
    assert frontier(()) == ()
