from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Capacity
from spectune.domain.history import History
from spectune.predict.room import interpolated
from tests.predict.test_speed import depths, simple, told

SURFACE = simple()


def told_rooms(rooms: dict[int, Capacity]) -> History:
    """One trial of each depth (0: the baseline) with that capacity."""
    candidates = [depths(SURFACE)[k - 1] if k else SURFACE.baseline for k in rooms]
    history = told(SURFACE, candidates)
    trials = dict(history.trials)
    for number, room in zip(trials, rooms.values(), strict=True):
        deployment = trials[number].deployment
        assert deployment is not None
        trials[number] = replace(
            trials[number], deployment=replace(deployment, seen=replace(deployment.seen, capacity=room))
        )
    return replace(history, trials=trials)


def rooms_of(*running: int) -> dict[int, Capacity]:
    return {depth: Capacity(max_running=count) for depth, count in enumerate(running)}


@pytest.mark.parametrize(
    ("known", "depth", "running"),
    [
        (rooms_of(32, 26), 1, 26),  # measured
        (rooms_of(32, 26), 3, 18),  # a straight line of reciprocals on
        ({0: Capacity(max_running=30), 4: Capacity(max_running=18)}, 2, 22),  # and between
        ({1: Capacity(max_running=12), 2: Capacity(max_running=10)}, 4, 7),  # SGLang, 122B-A10B on two H200s; 8 came
        (rooms_of(20, 12), 4, 5),  # there a straight line of requests themselves told 1
        ({0: Capacity(max_running=30)}, 2, 30),  # only one is known
        (rooms_of(10, 2), 5, 1),  # never less than one
    ],
)
def test_running_requests(known: dict[int, Capacity], depth: int, running: int) -> None:
    found = interpolated(SURFACE.spec, told_rooms(known), depths(SURFACE)[depth - 1])
    assert found is not None
    assert found.max_running == running


def test_published_room_of_steps_one_and_two_tells_three() -> None:
    """The hand-run campaign: 26, 21, 17 running requests and 455357, 377207 tokens at 1, 2, 3 steps."""
    known = {1: Capacity(455357, 26), 2: Capacity(377207, 21)}
    found = interpolated(SURFACE.spec, told_rooms(known), depths(SURFACE)[2])
    assert found is not None
    assert found.max_running == 17
    assert found.kv_tokens == 299057


def test_where_nobody_tells_nothing_is_said() -> None:
    assert interpolated(SURFACE.spec, told_rooms({0: Capacity(), 2: Capacity()}), depths(SURFACE)[0]) is None


def test_no_speculation_takes_nothing_from_depths() -> None:
    assert interpolated(SURFACE.spec, told_rooms({2: Capacity(max_running=9)}), Candidate()) is None
