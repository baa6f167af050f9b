from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.candidate import Candidate, Method
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import BudgetSpec, SearchSpec, SpeculationSpace
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Decision
from spectune.search.grid import Grid
from tests.search.walks import depths, explored, played
from tests.support.histories import BASELINE, DRAFTS, Story, draft, spec, verdict

NGRAM = SpeculationSpace(Method.NGRAM, depths=(8, 4))


def peak(candidate: Candidate) -> float:
    return 1.5 - 0.1 * abs(candidate.speculation.depth - 3)


def test_every_depth_is_tried_although_the_first_ones_lose() -> None:
    made, stop = played(Grid(), spec(), lambda candidate: 0.5)
    assert depths(made) == [1, 2, 3, 4]
    assert stop == Stop("everything worth trying was tried")


def test_methods_in_order_each_from_shallow_to_deep() -> None:
    made, _ = played(Grid(), spec(search=SearchSpec(speculation=(DRAFTS, NGRAM))), lambda candidate: 0.5)
    assert depths(made) == [1, 2, 3, 4, 4, 8]
    assert made[2].reason == "draft: 1 of 6 in the grid, k=1"


def test_baseline_twice_first_and_the_best_confirmed_last() -> None:
    made, _ = played(Grid(), spec(), peak)
    assert [step.purpose for step in made[:2]] == [Purpose.BASELINE] * 2
    arms = [step.candidate for step in made if step.purpose is Purpose.CONFIRM]
    assert arms == [draft(3), BASELINE, BASELINE, draft(3)]


def test_the_incumbent_is_measured_again_now_and_then() -> None:
    space = replace(DRAFTS, depths=(1, 2, 3, 4, 5, 6))
    made, _ = played(Grid(), spec(search=SearchSpec(speculation=(space,))), lambda candidate: 0.5)
    purposes = [step.purpose for step in made]
    assert purposes[2:] == [Purpose.EXPLORE] * 3 + [Purpose.ANCHOR] + [Purpose.EXPLORE] * 3


def test_failed_depths_do_not_end_it() -> None:
    story = Story().baselines().trial(draft(1), state=TrialState.INVALID).trial(draft(2), state=TrialState.PRUNED)
    step = Grid().propose(spec(), story.history)
    assert isinstance(step, Proposal)
    assert step.candidate == draft(3)


def test_nothing_is_tried_on_a_broken_baseline() -> None:
    story = Story().trial(BASELINE, Purpose.BASELINE, state=TrialState.INVALID)
    assert Grid().propose(spec(), story.history) == Stop("the service as it is does not pass its checks")


@pytest.mark.parametrize(("speed", "base"), [(1.2, {"threads": 1}), (0.8, {}), (1.01, {})])
def test_methods_are_tried_on_the_best_of_the_other_settings(speed: float, base: dict[str, int]) -> None:
    search = SearchSpec(speculation=(DRAFTS,), knobs={"threads": (1, 2)})  # threads=2 is what the service has
    made, _ = played(Grid(), spec(search=search), lambda c: speed if not c.speculation.depth else 0.5)
    assert explored(made)[0] == Candidate(knobs={"threads": 1})
    assert explored(made)[1:] == [replace(draft(depth), knobs=base) for depth in (1, 2, 3, 4)]


def test_a_setting_is_not_tried_again_on_a_new_best() -> None:
    search = SearchSpec(knobs={"threads": (1, 4), "poll": (0,)})
    made, _ = played(Grid(), spec(search=search), lambda c: 1.2 if c.knobs.get("threads") == 4 else 0.9)
    assert explored(made) == [Candidate(knobs=k) for k in ({"threads": 1}, {"threads": 4}, {"threads": 4, "poll": 0})]


def test_what_the_service_does_already_is_no_point_of_the_grid() -> None:
    none = SpeculationSpace(Method.NONE, depths=(1, 2))
    made, _ = played(Grid(), spec(search=SearchSpec(speculation=(none, DRAFTS))), lambda candidate: 0.5)
    assert depths(made) == [1, 2, 3, 4]


def test_launches_are_limited_and_what_was_left_out_is_named() -> None:
    made, stop = played(Grid(), spec(budget=BudgetSpec(trials=6, confirm_pairs=1)), lambda candidate: 0.5)
    assert len(made) == 4
    assert stop == Stop("the budget ended before draft k=3 could be tried")


def test_a_winner_is_confirmed_before_the_budget_ends() -> None:
    budget = BudgetSpec(minutes=8, trials=40, confirm_pairs=2)  # a trial takes a minute
    made, _ = played(Grid(), spec(budget=budget), lambda candidate: 1.2)
    assert [step.purpose for step in made[2:]] == [Purpose.EXPLORE] * 2 + [Purpose.CONFIRM] * 4


def test_confirming_once_begun_nothing_else_is_tried() -> None:
    story = Story().baselines().trial(draft(1), decided=verdict(Decision.KEEP, 1.2)).trial(BASELINE, Purpose.CONFIRM)
    step = Grid().propose(spec(), story.history)
    assert isinstance(step, Proposal)
    assert (step.purpose, step.candidate) == (Purpose.CONFIRM, draft(1))
