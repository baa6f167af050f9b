from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.candidate import Candidate, Method
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import BudgetSpec, CandidateSpec, ObjectiveSpec, SearchSpec, SpeculationSpace
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Decision, Verdict
from spectune.search import Staged
from spectune.search.bracket import confirmation, finalist, scores
from tests.support.histories import BASELINE, DRAFTS, Story, draft, spec, verdict

KEEP = verdict(Decision.KEEP, 1.2)
REVERT = verdict(Decision.REVERT, 0.8)


def next_of(story: Story, **changes: object) -> Proposal | None:
    step = Staged().propose(spec(**changes), story.history)
    return step if isinstance(step, Proposal) else None


def candidate_after(story: Story, **changes: object) -> Candidate:
    proposal = next_of(story, **changes)
    assert proposal is not None
    return proposal.candidate


def test_baseline_comes_twice() -> None:
    story = Story()
    for _ in range(2):
        proposal = next_of(story)
        assert proposal is not None
        assert (proposal.candidate, proposal.purpose) == (BASELINE, Purpose.BASELINE)
        story.trial(BASELINE, Purpose.BASELINE)
    assert candidate_after(story) == draft(1)


def test_nothing_is_tried_on_a_broken_baseline() -> None:
    assert next_of(Story().trial(BASELINE, Purpose.BASELINE, state=TrialState.INVALID)) is None


def test_goes_deeper_while_it_pays() -> None:
    better = verdict(Decision.KEEP, 1.3)
    story = Story().baselines().trial(draft(1), decided=KEEP).trial(draft(2), decided=better)
    assert candidate_after(story) == draft(3)
    confirm = next_of(story.trial(draft(3), decided=REVERT))
    assert confirm is not None
    assert confirm.purpose is Purpose.CONFIRM


def test_the_second_depth_is_tried_although_the_first_lost() -> None:
    story = Story().baselines().trial(draft(1), decided=REVERT)
    assert candidate_after(story) == draft(2)
    assert next_of(story.trial(draft(2), decided=REVERT)) is None


def test_a_gain_in_one_slice_is_a_reason_to_go_on() -> None:
    gains = verdict(Decision.REVERT, 0.9, slices=[(1.3, 1.1)])
    story = Story().baselines().trial(draft(1), decided=gains).trial(draft(2), decided=gains)
    assert candidate_after(story) == draft(3)


def test_an_unproven_gain_is_a_reason_to_go_on() -> None:
    story = Story().baselines()
    for depth, value in ((1, 1.04), (2, 1.09)):
        story.trial(draft(depth), decided=verdict(Decision.INCONCLUSIVE, value))
    assert candidate_after(story) == draft(3)
    story.trial(draft(3), decided=verdict(Decision.INCONCLUSIVE, 1.06))
    proposal = next_of(story)
    assert proposal is not None
    assert (proposal.purpose, proposal.candidate) == (Purpose.CONFIRM, draft(2))


def test_scores_are_chained_over_incumbents() -> None:
    story = Story().baselines().trial(draft(1), decided=verdict(Decision.KEEP, 1.2))
    chained = replace(verdict(Decision.INCONCLUSIVE, 1.1), reference=draft(1).id)
    story.trial(draft(2), decided=chained)
    assert scores(story.history) == pytest.approx({BASELINE.id: 1.0, draft(1).id: 1.2, draft(2).id: 1.32})
    assert finalist(spec(), story.history) == draft(2)


def test_an_invalid_depth_ends_its_method() -> None:
    assert next_of(Story().baselines().trial(draft(1), state=TrialState.INVALID)) is None


def test_methods_follow_each_other() -> None:
    ngram = SpeculationSpace(Method.NGRAM, depths=(8,))
    search = SearchSpec(speculation=(DRAFTS, ngram))
    story = Story().baselines().trial(draft(1), decided=REVERT).trial(draft(2), decided=REVERT)
    assert candidate_after(story, search=search).speculation.method is Method.NGRAM


def test_settings_come_before_methods_but_not_as_they_are() -> None:
    search = SearchSpec(speculation=(DRAFTS,), knobs={"threads": (1, 2)})
    story = Story().baselines()
    one = Candidate(knobs={"threads": 1})
    assert candidate_after(story, search=search) == one  # threads=2 is what the service has already
    story.trial(one, decided=KEEP)
    assert candidate_after(story, search=search) == replace(draft(1), knobs={"threads": 1})


def test_methods_are_tried_on_the_baseline_where_no_setting_is_better() -> None:
    search = SearchSpec(speculation=(DRAFTS,), knobs={"threads": (1,)})
    story = Story().baselines().trial(Candidate(knobs={"threads": 1}), decided=REVERT)
    assert candidate_after(story, search=search) == draft(1)


def test_a_setting_is_not_tried_again_on_a_new_incumbent() -> None:
    search = SearchSpec(knobs={"threads": (1, 4), "poll": (0,)})
    story = Story().baselines()
    one, four = (Candidate(knobs={"threads": n}) for n in (1, 4))
    story.trial(one, decided=REVERT).trial(four, decided=KEEP)
    assert candidate_after(story, search=search) == Candidate(knobs={"threads": 4, "poll": 0})


def test_the_incumbent_is_measured_again_after_three_others() -> None:
    space = SpeculationSpace(Method.DRAFT, depths=(1, 2, 3, 4, 5), draft_model="/d.gguf")
    gains = verdict(Decision.REVERT, 0.9, slices=[(1.3, 1.1)])
    story = Story().baselines()
    for depth in (1, 2, 3):
        story.trial(draft(depth), decided=gains)
    anchor = next_of(story, search=SearchSpec(speculation=(space,)))
    assert anchor is not None
    assert (anchor.purpose, anchor.candidate) == (Purpose.ANCHOR, BASELINE)
    story.trial(BASELINE, Purpose.ANCHOR)
    assert candidate_after(story, search=SearchSpec(speculation=(space,))) == draft(4)


def test_candidates_of_the_file_are_tried_first_and_all() -> None:
    named = (CandidateSpec(Method.NGRAM, 4, knobs={"env.X": 1}), CandidateSpec(Method.NGRAM, 8))
    search = SearchSpec(candidates=named)
    story = Story().baselines()
    first = next_of(story, search=search)
    assert first is not None
    assert (first.candidate.label, first.candidate.environment) == ("ngram k=4, env.X=1", {"X": "1"})
    story.trial(first.candidate, decided=REVERT)
    second = next_of(story, search=search)
    assert second is not None
    assert second.candidate.label == "ngram k=8"
    assert next_of(story.trial(second.candidate, decided=REVERT), search=search) is None


def test_confirmation_alternates_and_ends() -> None:
    story = Story().baselines().trial(draft(1), decided=KEEP).trial(draft(2), decided=REVERT)
    arms = []
    while (proposal := next_of(story)) is not None:
        assert proposal.purpose is Purpose.CONFIRM
        arms.append(proposal.candidate.speculation.depth)
        story.trial(proposal.candidate, Purpose.CONFIRM)
    assert arms == [1, 0, 0, 1]


def test_side_by_side_pairs_are_proposed_while_they_work() -> None:
    story = Story().baselines().trial(draft(1), decided=KEEP).trial(draft(2), decided=REVERT)
    budget = BudgetSpec(minutes=60, trials=40, confirm_pairs=2, side_by_side=True)
    first = next_of(story, budget=budget)
    assert first is not None
    assert (first.candidate, first.beside) == (BASELINE, draft(1))
    story.pair(BASELINE, draft(1))
    again = next_of(story, budget=budget)
    assert again is not None
    assert again.beside == draft(1)
    story.pair(BASELINE, draft(1))
    assert next_of(story, budget=budget) is None


def test_where_two_servers_did_not_get_on_the_arms_take_turns() -> None:
    story = Story().baselines().trial(draft(1), decided=KEEP).trial(draft(2), decided=REVERT)
    budget = BudgetSpec(minutes=60, trials=40, confirm_pairs=1, side_by_side=True)
    story.pair(BASELINE, draft(1), TrialState.PRUNED)
    arms = []
    while (proposal := next_of(story, budget=budget)) is not None:
        assert proposal.beside is None
        arms.append(proposal.candidate)
        story.trial(proposal.candidate, Purpose.CONFIRM)
    assert arms == [draft(1), BASELINE]


def test_a_hopeful_but_unproven_candidate_is_confirmed_too() -> None:
    hopeful = verdict(Decision.INCONCLUSIVE, 1.08)
    story = Story().baselines().trial(draft(1), decided=hopeful).trial(draft(2), decided=REVERT)
    proposal = next_of(story)
    assert proposal is not None
    assert proposal.purpose is Purpose.CONFIRM


def test_of_those_that_look_alike_the_simplest_is_confirmed() -> None:
    alike = Story().baselines().trial(draft(1), decided=verdict(Decision.KEEP, 1.20))
    alike.trial(draft(2), decided=verdict(Decision.TIE, 1.22))
    chosen = finalist(spec(objective=ObjectiveSpec(min_gain=0.03)), alike.history)
    assert chosen == draft(1)
    assert finalist(spec(objective=ObjectiveSpec(min_gain=0.0)), alike.history) == draft(2)


def test_nobody_is_the_finalist_where_every_gain_counts_and_nobody_gained() -> None:
    lost = Story().baselines().trial(draft(1), decided=REVERT)
    assert finalist(spec(objective=ObjectiveSpec(min_gain=0.0)), lost.history) is None


def test_a_broken_confirmation_ends_it() -> None:
    story = Story().baselines().trial(draft(1), decided=KEEP).trial(draft(2), decided=REVERT)
    assert next_of(story.trial(draft(1), Purpose.CONFIRM, state=TrialState.INVALID)) is None


def test_exploring_leaves_room_for_the_confirmation() -> None:
    story = Story().baselines().trial(draft(1), decided=KEEP)
    tight = BudgetSpec(minutes=8, trials=40, confirm_pairs=2)  # 3 spent, 4 needed to confirm
    assert candidate_after(story, budget=tight) == draft(2)
    story.trial(draft(2), decided=KEEP)
    proposal = next_of(story, budget=tight)
    assert proposal is not None
    assert (proposal.purpose, proposal.candidate) == (Purpose.CONFIRM, draft(1))


def test_launches_are_limited_and_what_was_left_out_is_named() -> None:
    story = Story().baselines().trial(draft(1), decided=KEEP)
    step = Staged().propose(spec(budget=BudgetSpec(trials=3, confirm_pairs=2)), story.history)
    assert step == Stop("the budget ended before draft k=2 could be tried")


@pytest.mark.parametrize(("minutes", "purpose"), [(9, Purpose.ANCHOR), (8, None)])
def test_an_anchor_is_made_only_where_there_is_room_for_what_follows_it(minutes: int, purpose: Purpose | None) -> None:
    space = SpeculationSpace(Method.DRAFT, depths=(1, 2, 3, 4, 5), draft_model="/d.gguf")
    gains = verdict(Decision.REVERT, 0.9, slices=[(1.3, 1.1)])
    story = Story().baselines()
    for depth in (1, 2, 3):
        story.trial(draft(depth), decided=gains)
    budget = BudgetSpec(minutes=minutes, trials=40, confirm_pairs=1)  # five minutes are spent
    proposal = next_of(story, budget=budget, search=SearchSpec(speculation=(space,)))
    assert (proposal.purpose if proposal else None) == purpose


def test_while_nobody_is_to_be_confirmed_one_pair_is_kept_in_reserve() -> None:
    story = Story().baselines().trial(draft(1), decided=REVERT)
    assert candidate_after(story, budget=BudgetSpec(minutes=6, trials=40, confirm_pairs=4)) == draft(2)
    assert next_of(story, budget=BudgetSpec(minutes=5, trials=40, confirm_pairs=4)) is None


def test_when_all_was_tried_it_says_so() -> None:
    story = Story().baselines().trial(draft(1), decided=REVERT).trial(draft(2), decided=REVERT)
    assert Staged().propose(spec(), story.history) == Stop("everything worth trying was tried")


OPEN, DECIDED = verdict(Decision.INCONCLUSIVE, 1.02), verdict(Decision.KEEP, 1.05)
LOSS, TIE = verdict(Decision.INCONCLUSIVE, 0.99), verdict(Decision.TIE, 1.01)


@pytest.mark.parametrize(
    ("decided", "budget", "pairs"),
    [
        (OPEN, BudgetSpec(confirm_pairs=2), 4),
        (DECIDED, BudgetSpec(confirm_pairs=2), 2),
        (TIE, BudgetSpec(confirm_pairs=2), 2),
        (LOSS, BudgetSpec(confirm_pairs=2), 2),
        (OPEN, BudgetSpec(confirm_pairs=2, trials=9), 2),
        (OPEN, BudgetSpec(confirm_pairs=2, trials=10), 3),
        (OPEN, BudgetSpec(confirm_pairs=2, minutes=9), 2),
        (OPEN, BudgetSpec(confirm_pairs=2, minutes=10), 3),
        (OPEN, BudgetSpec(confirm_pairs=0), 0),
    ],
    ids=["open", "decided", "tie", "a loss", "launches end", "for one pair more", "time ends", "time for one", "none"],
)
def test_a_gain_left_open_gets_what_is_left_of_the_budget(decided: Verdict, budget: BudgetSpec, pairs: int) -> None:
    story = Story().baselines().trial(draft(1), decided=KEEP).trial(draft(2), decided=REVERT)
    arms = []
    while (proposal := next_of(story, budget=budget)) is not None:
        arms.append(proposal.candidate.speculation.depth)
        # What the judge says later changes nothing: the second half is made as a whole.
        story.trial(proposal.candidate, Purpose.CONFIRM, decided if len(arms) <= 4 else DECIDED)
    assert arms == [1, 0, 0, 1, 1, 0, 0, 1][: 2 * pairs]


def test_a_strategy_may_name_the_winner_and_it_stays() -> None:
    story = Story().baselines().trial(draft(1), decided=KEEP).trial(draft(2), decided=KEEP)
    own = confirmation(spec(), story.history, draft(2))
    assert own is not None
    assert own.candidate == draft(2)
    story.trial(draft(2), Purpose.CONFIRM).trial(BASELINE, Purpose.CONFIRM).trial(BASELINE, Purpose.CONFIRM)
    for changed in (draft(1), None):
        fourth = confirmation(spec(), story.history, changed)
        assert fourth is not None
        assert fourth.candidate == draft(2)


def test_a_confirmation_begun_with_the_baseline_goes_on_as_it_began() -> None:
    story = Story().baselines().trial(draft(1), decided=KEEP).trial(BASELINE, Purpose.CONFIRM)
    arms = [0]
    while (proposal := confirmation(spec(), story.history)) is not None:
        arms.append(proposal.candidate.speculation.depth)
        story.trial(proposal.candidate, Purpose.CONFIRM)
    assert arms == [0, 1, 1, 0]
