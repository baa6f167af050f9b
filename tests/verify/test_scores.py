"""Tasks with right and wrong answers: what a candidate may lose."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.asked import Asked
from spectune.domain.finding import Answer, ProbeRun, Status
from spectune.verify import scores
from spectune.verify.gate import Gate
from spectune.verify.observed import Observed
from tests.verify.builders import BASELINE, DRAFT, EVIDENCE, SEEN, asked

Scores = list[float | None]


def tasks(*marks: float | None) -> tuple[Answer, ...]:
    return tuple(Answer(f"task/{n}", f"answer {mark}", "stop", "", mark) for n, mark in enumerate(marks))


def beside(*marks: float | None, baseline: bool = False) -> Asked:
    return replace(asked(BASELINE if baseline else DRAFT), baseline_probes=((ProbeRun(4, tasks(*marks)),),))


def status(wants: Asked, *marks: float | None) -> Status:
    return scores.tasks_kept(wants, Observed(EVIDENCE, SEEN, tasks=tasks(*marks))).status


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ([1] * 20, [1] * 20, Status.OK),
        ([1] * 20, [1] * 16 + [0] * 4, Status.OK),
        ([1] * 20, [1] * 14 + [0] * 6, Status.UNKNOWN),
        ([1] * 20, [1] * 12 + [0] * 8, Status.VIOLATED),
        # As many lost as gained is chance.
        ([1] * 10 + [0] * 10, [0] * 10 + [1] * 10, Status.OK),
        ([0] * 20, [1] * 20, Status.OK),
        ([0.9] * 20, [0.4] * 20, Status.VIOLATED),
        # Nothing that was marked on both sides, or too little.
        ([1] * 20, [None] * 20, Status.UNKNOWN),
        ([1] * 20, [1] * 4, Status.UNKNOWN),
    ],
)
def test_tasks_kept(before: Scores, now: Scores, expected: Status) -> None:
    assert status(beside(*before), *now) is expected


def test_the_baseline_is_not_worse_than_itself() -> None:
    assert status(beside(*[1] * 20, baseline=True), *[0] * 20) is Status.OK


def test_lost_tasks_are_quoted_so_that_nothing_in_them_acts() -> None:
    lost = tuple(replace(answer, text="\x1b[2J wrong") for answer in tasks(*[0] * 20))
    found = scores.tasks_kept(beside(*[1] * 20), Observed(EVIDENCE, SEEN, tasks=lost))
    assert "0 of 20 right, 20 at the baseline (20 lost, 0 gained)" in found.seen
    assert "'\\x1b[2J wrong', the baseline: 'answer 1'" in found.seen
    assert "\x1b" not in found.seen


def test_only_where_the_baseline_was_asked() -> None:
    assert scores.wanted_of(beside(1, 0))
    assert not scores.wanted_of(asked())
    assert not scores.wanted_of(replace(asked(), baseline_probes=((ProbeRun(1, (Answer("chat/1", "hi"),)),),)))


def test_a_loss_makes_the_trial_invalid() -> None:
    runs = (ProbeRun(4, tasks(*[0] * 20)),)
    found = Gate().before(beside(*[1] * 20), EVIDENCE, SEEN, runs).invalid_because
    assert found is not None
    assert found.check == "task-score"


@given(
    st.lists(st.none() | st.floats(0, 1), max_size=30),
    st.lists(st.none() | st.floats(0, 1), max_size=30),
)
def test_no_scores_raise_and_equal_ones_are_no_loss(before: Scores, now: Scores) -> None:
    status(beside(*before), *now)
    if any(mark is not None for mark in before):
        assert status(beside(*before), *before) is Status.OK
