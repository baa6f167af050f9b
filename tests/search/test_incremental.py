from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.candidate import Method
from spectune.domain.events import CampaignOpened
from spectune.domain.ports import Proposal
from spectune.domain.spec import SearchSpec, SpeculationSpace
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Decision
from spectune.search.incremental import Incremental
from tests.search.walks import depths, played
from tests.support.histories import DRAFTS, Story, draft, spec, verdict


@pytest.mark.parametrize(
    ("speeds", "tried"),
    [
        ({1: 1.2, 2: 1.5, 3: 1.9, 4: 1.8}, [1, 2, 3, 4]),
        ({1: 1.2, 2: 1.1, 3: 1.9, 4: 1.8}, [1, 2]),
        ({1: 0.9, 2: 1.5, 3: 1.9, 4: 1.8}, [1]),
        ({1: 1.01, 2: 1.02, 3: 1.0, 4: 1.8}, [1, 2, 3]),
    ],
)
def test_one_step_further_while_it_pays(speeds: dict[int, float], tried: list[int]) -> None:
    made, _ = played(Incremental(), spec(), lambda candidate: speeds[candidate.speculation.depth])
    assert depths(made) == tried


def test_the_hand_run_campaign() -> None:
    """Per-user speed at steps 1, 2, 3 as published; a fourth step invented to lose."""
    speeds = {1: 123.0, 2: 186.0, 3: 234.0, 4: 220.0}
    made, _ = played(Incremental(), spec(), lambda candidate: speeds[candidate.speculation.depth] / 100)
    assert depths(made) == [1, 2, 3, 4]
    assert made[-1].candidate == draft(3)  # the confirmation's arm


def test_the_next_method_after_one_that_does_not_pay() -> None:
    search = SearchSpec(speculation=(DRAFTS, SpeculationSpace(Method.NGRAM, depths=(4, 8))))
    made, _ = played(Incremental(), spec(search=search), lambda c: 0.9 if c.speculation.depth < 4 else 1.3)
    assert depths(made) == [1, 4, 8]
    assert made[2].reason == "draft: first step, k=1"


def test_a_step_that_failed_ends_its_method() -> None:
    story = Story().baselines().trial(draft(1), decided=verdict(Decision.KEEP, 1.2))
    story.trial(draft(2), state=TrialState.INVALID)
    step = Incremental().propose(spec(), story.history)
    assert isinstance(step, Proposal)
    assert step.purpose is Purpose.CONFIRM


@pytest.mark.parametrize(
    ("results", "following"),
    [
        ([], 3),
        ([(3, 1.2)], 4),
        ([(3, 1.2), (4, 1.1)], None),
        ([(3, 0.9)], 1),
        ([(3, 0.9), (1, 0.9)], None),
    ],
)
def test_from_where_the_service_is(results: list[tuple[int, float]], following: int | None) -> None:
    story = Story()
    first = story.events[0]
    assert isinstance(first, CampaignOpened)
    story.events[0] = replace(first, baseline=draft(2))
    story.trial(draft(2), Purpose.BASELINE).trial(draft(2), Purpose.BASELINE)
    for depth, speed in results:
        decided = verdict(Decision.KEEP if speed > 1 else Decision.REVERT, speed)
        story.trial(draft(depth), decided=replace(decided, reference=draft(2).id))
    step = Incremental().propose(spec(), story.history)
    found = step.candidate.speculation.depth if isinstance(step, Proposal) and step.purpose is Purpose.EXPLORE else None
    assert found == following
