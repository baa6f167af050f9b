"""Guided's decisions on told forecasts, and whole campaigns on surfaces with the real forecaster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from bench.search.simulate import opened, run, with_trial
from bench.search.surfaces import Surface, random_surfaces
from spectune.domain.candidate import Candidate, Method
from spectune.domain.deployment import Capacity
from spectune.domain.estimate import Ratio
from spectune.domain.forecast import Forecast
from spectune.domain.history import History
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import (
    BudgetSpec,
    CampaignSpec,
    CandidateSpec,
    ConstraintSpec,
    ObjectiveSpec,
    SearchSpec,
    SpeculationSpace,
)
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Decision, Verdict
from spectune.predict.speed import SpeedForecaster
from spectune.search.guided import Guided, telling
from tests.support.histories import BASELINE, DRAFTS, Story, draft, spec, verdict
from tests.support.histories import opened as campaign_opened

KEEP, REVERT = verdict(Decision.KEEP, 1.2), verdict(Decision.REVERT, 0.8)


class Told:
    """A forecaster that says what the test says: depth -> (lead, half-width)."""

    def __init__(
        self, leads: Mapping[int, tuple[float, float]], leader: Candidate = BASELINE, **rooms: Capacity
    ) -> None:
        self._leads, self._leader, self._rooms = leads, leader, rooms

    def forecast(self, spec: CampaignSpec, history: History, candidates: Iterable[Candidate]) -> Mapping[str, Forecast]:
        found = {}
        for candidate in candidates:
            depth = candidate.speculation.depth
            if depth in self._leads:
                value, half = self._leads[depth]
                ratio = Ratio(value, value / (1 + half), value * (1 + half), 3)
                room = self._rooms.get(f"k{depth}")
                found[candidate.id] = Forecast(candidate, {}, room, "told", ratio, ratio, self._leader.id)
        return found


def step(story: Story, told: Told, **changes: object) -> Proposal | Stop:
    return Guided(told).propose(spec(**changes), story.history)


def tried(story: Story, told: Told, **changes: object) -> Candidate:
    found = step(story, told, **changes)
    assert isinstance(found, Proposal)
    assert found.purpose is Purpose.EXPLORE
    return found.candidate


def stopped(story: Story, told: Told, **changes: object) -> str:
    found = step(story, told, **changes)
    assert isinstance(found, Stop)
    return found.reason


NOTHING = Told({})


def test_baseline_comes_twice_and_must_be_sound() -> None:
    story = Story()
    for _ in range(2):
        found = step(story, NOTHING)
        assert isinstance(found, Proposal)
        assert found.purpose is Purpose.BASELINE
        story.trial(BASELINE, Purpose.BASELINE)
    broken = Story().trial(BASELINE, Purpose.BASELINE, state=TrialState.INVALID)
    assert "does not pass" in stopped(broken, NOTHING)


@pytest.mark.parametrize(
    ("depths", "first"),
    [((1,), 1), ((1, 2), 1), ((1, 2, 3, 4, 5, 6), 3), ((1, 2, 4, 8, 16), 8), ((2, 4, 8), 4), (tuple(range(1, 9)), 4)],
)
def test_the_first_depth_is_the_middle_of_the_square_roots(depths: tuple[int, ...], first: int) -> None:
    assert telling([draft(k) for k in depths]).speculation.depth == first


def test_every_method_is_measured_once_before_any_other_depth() -> None:
    search = SearchSpec(speculation=(DRAFTS, SpeculationSpace(Method.NGRAM, depths=(8, 16))))
    story = Story().baselines()
    first = tried(story, NOTHING, search=search)
    assert first == draft(2)
    second = tried(story.trial(first, decided=KEEP), Told({1: (2.0, 0.1)}), search=search)
    assert second.speculation.method is Method.NGRAM


def test_a_service_that_speculates_already_starts_from_its_own_depth() -> None:
    own = draft(3)
    story = Story()
    story.events[0] = replace(campaign_opened(), baseline=own)
    story.trial(own, Purpose.BASELINE).trial(own, Purpose.BASELINE)
    found = step(story, Told({1: (0.9, 0.01), 2: (0.95, 0.01), 4: (1.1, 0.05)}, leader=own))
    assert isinstance(found, Proposal)
    assert found.candidate == draft(4)


def test_the_largest_expected_improvement_is_tried_and_the_reason_tells_the_forecast() -> None:
    story = Story().baselines().trial(draft(2), decided=KEEP)
    told = Told({1: (1.02, 0.01), 3: (1.05, 0.1), 4: (1.0, 0.02)}, leader=draft(2))
    found = step(story, told)
    assert isinstance(found, Proposal)
    assert found.candidate == draft(3)
    assert "forecast +5 % (-5 to +16)" in found.reason
    assert "against draft k=2, the best so far" in found.reason


def test_it_stops_exploring_when_nothing_left_can_gain_enough() -> None:
    story = Story().baselines().trial(draft(2), decided=REVERT)
    told = Told({1: (0.99, 0.01), 3: (0.9, 0.05), 4: (0.8, 0.1)})
    reason = stopped(story, told)
    assert reason.startswith("nothing left can win; left out draft k=1, draft k=3, draft k=4: at best -0.2 % against")
    assert reason.endswith("1 launched of 4: 3 launches saved")
    assert tried(story, Told({1: (0.99, 0.06)})) == draft(1)  # +3 % is possible


def test_the_winner_is_confirmed_interleaved() -> None:
    told = Told({1: (0.9, 0.01), 3: (0.9, 0.01), 4: (0.8, 0.1)}, leader=draft(2))
    story = Story().baselines().trial(draft(2), decided=KEEP)
    arms = []
    while isinstance(found := step(story, told), Proposal):
        assert found.purpose is Purpose.CONFIRM
        arms.append(found.candidate.speculation.depth)
        story.trial(found.candidate, Purpose.CONFIRM)
    assert arms == [2, 0, 0, 2]
    assert "saved" in found.reason


def single(reference: Candidate, value: float, decision: Decision = Decision.KEEP) -> Verdict:
    return replace(verdict(decision, value), reference=reference.id)


def confirmed(story: Story, told: Told, **changes: object) -> Candidate:
    """Who is confirmed: the first arm is the winner's."""
    found = step(story, told, **changes)
    assert isinstance(found, Proposal)
    assert found.purpose is Purpose.CONFIRM
    return found.candidate


class TestWinner:
    """The forecast pools what all trials tell; a single judged score is luck in part."""

    POOLED = Told({1: (1.05, 0.01), 2: (1.2, 0.01), 3: (1.1, 0.01), 4: (0.9, 0.01)}, leader=draft(2))

    def all_tried(self, **decided: Verdict) -> Story:
        """Depths 1 to 4, both measured again as often as they may be."""
        story = Story().baselines()
        for depth in (1, 2, 3, 4):
            story.trial(draft(depth), decided=decided.get(f"k{depth}", REVERT))
        for _ in range(2):
            story.trial(draft(3), decided=decided.get("k3", REVERT))
        return story.trial(BASELINE, Purpose.ANCHOR)

    def test_the_forecasts_best_is_confirmed_though_another_measured_better(self) -> None:
        story = self.all_tried(k2=single(BASELINE, 1.08), k3=single(draft(2), 1.05))
        assert confirmed(story, self.POOLED) == draft(2)

    def test_even_where_it_was_judged_slower_once(self) -> None:
        slower = single(draft(3), 0.9, Decision.REVERT)
        story = self.all_tried(k3=single(BASELINE, 1.15), k2=slower)
        assert confirmed(story, self.POOLED) == draft(2)

    def test_but_not_where_it_broke_a_constraint(self) -> None:
        broke = single(BASELINE, 1.2, Decision.REVERT)
        assert confirmed(self.all_tried(k2=broke, k3=single(BASELINE, 1.1)), self.POOLED) == draft(3)

    def test_of_forecast_equals_the_simpler(self) -> None:
        alike = Told({1: (1.18, 0.01), 2: (1.2, 0.01), 3: (0.9, 0.01), 4: (0.9, 0.01)}, leader=draft(2))
        assert confirmed(self.all_tried(k1=single(BASELINE, 1.1), k2=single(BASELINE, 1.2)), alike) == draft(1)

    def test_without_forecasts_the_judges_scores_decide(self) -> None:
        assert confirmed(self.all_tried(k3=single(BASELINE, 1.15), k2=single(BASELINE, 1.05)), NOTHING) == draft(3)

    def test_confirming_trials_do_not_change_the_forecast(self) -> None:
        seen: list[set[Purpose]] = []

        class Watching(Told):
            def forecast(
                self, spec: CampaignSpec, history: History, candidates: Iterable[Candidate]
            ) -> Mapping[str, Forecast]:
                seen.append({trial.purpose for trial in history.finished})
                return super().forecast(spec, history, candidates)

        told = Watching(dict.fromkeys((1, 2, 3, 4), (1.2, 0.01)), leader=draft(1))
        confirmed(self.all_tried(), told)
        assert all(Purpose.CONFIRM not in purposes for purposes in seen)


def test_goodput_is_not_forecast_so_everyone_is_measured() -> None:
    told = Told({1: (0.5, 0.01), 3: (0.5, 0.01), 4: (0.5, 0.01)}, leader=draft(2))
    story = Story().baselines().trial(draft(2), decided=KEEP)
    goal = ObjectiveSpec(maximise=MetricName.GOODPUT, slo_ttft_s=1.0)
    assert tried(story, told, objective=goal) == draft(3)


def test_candidates_without_a_forecast_are_measured() -> None:
    story = Story().baselines().trial(draft(2), decided=KEEP)
    assert tried(story, Told({1: (0.5, 0.01), 4: (0.5, 0.01)})) == draft(3)


def test_no_room_no_trial_and_the_reason_says_so() -> None:
    story = Story().baselines().trial(draft(2), decided=REVERT)
    told = Told({1: (0.9, 0.01), 3: (1.5, 0.1), 4: (1.6, 0.1)}, k3=Capacity(5000), k4=Capacity(4000))
    floors = ConstraintSpec(min_kv_tokens=10_000)
    reason = stopped(story, told, constraints=floors)
    assert "draft k=3: about 5000 tokens of KV room expected, at least 10000 are demanded" in reason


def test_a_failed_depth_rules_out_deeper_ones_and_two_failures_the_method() -> None:
    story = Story().baselines().trial(draft(2), state=TrialState.INVALID)
    assert tried(story, NOTHING) == draft(1)
    assert stopped(story.trial(draft(1), state=TrialState.INVALID), NOTHING) == "everything worth trying was tried"


def test_other_settings_follow_on_the_best() -> None:
    search = SearchSpec(speculation=(DRAFTS,), knobs={"threads": (2, 1), "poll": (0,)})
    told = Told({1: (0.9, 0.01), 3: (0.9, 0.01), 4: (0.9, 0.01)}, leader=draft(2))
    story = Story().baselines().trial(draft(2), decided=KEEP)
    first = tried(story, told, search=search)
    assert first == replace(draft(2), knobs={"threads": 1})  # threads=2 is what the service has already
    story.trial(first, decided=replace(verdict(Decision.KEEP, 1.1), reference=draft(2).id))
    assert tried(story, told, search=search) == replace(draft(2), knobs={"threads": 1, "poll": 0})


def test_what_the_campaign_file_names_comes_first() -> None:
    named = CandidateSpec(Method.DRAFT, 3, draft_model="/d.gguf")
    search = SearchSpec(speculation=(DRAFTS,), candidates=(named,))
    story = Story().baselines()
    assert tried(story, NOTHING, search=search) == draft(3)
    story.trial(draft(3), decided=KEEP)  # it tells about the method as well as a depth chosen here
    assert tried(story, Told({1: (1.2, 0.1), 2: (0.9, 0.1), 4: (0.9, 0.1)}, leader=draft(3)), search=search) == draft(1)


def test_rivals_are_measured_again_a_few_times_at_most() -> None:
    told = Told({1: (0.9, 0.01), 2: (1.0, 0.01), 3: (0.94, 0.02), 4: (0.9, 0.01)}, leader=draft(2))
    hopeful = verdict(Decision.INCONCLUSIVE, 1.1)
    story = (
        Story()
        .baselines()
        .trial(draft(2), decided=verdict(Decision.INCONCLUSIVE, 1.06))
        .trial(draft(3), decided=hopeful)
    )
    found = step(story, told)
    assert isinstance(found, Proposal)
    assert found.candidate == draft(2)
    assert "measured best is draft k=3, but all trials together speak for draft k=2" in found.reason
    for _ in range(2):
        story.trial(draft(2), decided=verdict(Decision.INCONCLUSIVE, 1.06))
    found = step(story, told)
    assert isinstance(found, Proposal)
    assert found.purpose is not Purpose.EXPLORE


def test_the_budget_leaves_room_for_the_confirmation() -> None:
    told = Told({1: (1.5, 0.1), 3: (1.5, 0.1), 4: (1.5, 0.1)}, leader=draft(2))
    story = Story().baselines().trial(draft(2), decided=KEEP)
    assert isinstance(step(story, told, budget=BudgetSpec(minutes=8, confirm_pairs=2)), Proposal)
    found = step(story, told, budget=BudgetSpec(minutes=7, confirm_pairs=2))
    assert isinstance(found, Proposal)
    assert found.purpose is Purpose.CONFIRM
    out = stopped(story, told, budget=BudgetSpec(trials=3, confirm_pairs=2))
    assert out.startswith("the budget ended before draft k=1 could be tried; left out draft k=1, draft k=3, draft k=4")


def test_the_incumbent_is_measured_again_after_three_others() -> None:
    space = SpeculationSpace(Method.DRAFT, depths=(1, 2, 3, 4, 5), draft_model="/d.gguf")
    story = Story().baselines()
    for depth in (1, 2, 3):
        story.trial(draft(depth), decided=REVERT)
    found = step(story, Told({4: (1.5, 0.1), 5: (1.4, 0.1)}), search=SearchSpec(speculation=(space,)))
    assert isinstance(found, Proposal)
    assert (found.purpose, found.candidate) == (Purpose.ANCHOR, BASELINE)


def small() -> list[Surface]:
    return random_surfaces(8, seed=3)


@pytest.mark.parametrize("surface", small(), ids=lambda surface: surface.name)
def test_few_launches_on_random_machines(surface: Surface) -> None:
    outcome = run(surface, Guided(SpeedForecaster()), 0.01, np.random.default_rng(4))
    needed = outcome.launches_to(0.02)
    assert needed is not None
    assert needed <= 5
    assert outcome.regrets[-1] <= 0.03
    assert len(outcome.regrets) - 1 < sum(len(space.depths) for space in surface.spec.search.speculation)


def test_the_same_history_gives_the_same_proposal() -> None:
    """A campaign resumed from its ledger goes on as it would have: a fresh strategy on folded events."""
    surface, rng = small()[0], np.random.default_rng(2)
    history = opened(surface)
    while isinstance(found := Guided(SpeedForecaster()).propose(surface.spec, history), Proposal):
        history = with_trial(surface, history, found, 0.01, rng)
    assert len(history.trials) > 3
    again = History(history.opened)
    for number, trial in history.trials.items():
        proposal = Guided(SpeedForecaster()).propose(surface.spec, again)
        assert proposal == Proposal(trial.candidate, trial.purpose, trial.reason)
        again = replace(again, trials={**again.trials, number: trial})
    assert Guided(SpeedForecaster()).propose(surface.spec, again) == found
