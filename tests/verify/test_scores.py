"""Tasks with right and wrong answers: what a candidate may lose."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.asked import Asked
from spectune.domain.finding import Answer, ProbeRun, Status
from spectune.verify import scores
from spectune.verify.gate import Gate
from spectune.verify.observed import Observed
from tests.verify.builders import EVIDENCE, SEEN, asked
from tests.verify.cases.scores import ALL_RIGHT, ESCAPED, LOST, beside, tasks

Scores = list[float | None]


def status(wants: Asked, *marks: float | None) -> Status:
    return scores.tasks_kept(wants, Observed(EVIDENCE, SEEN, tasks=tasks(*marks))).status


def test_lost_tasks_are_quoted_so_that_nothing_in_them_acts() -> None:
    found = scores.tasks_kept(ALL_RIGHT, Observed(EVIDENCE, SEEN, tasks=LOST))
    assert ESCAPED in found.seen
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
