from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.events import CampaignEnded
from spectune.domain.spec import SearchSpec, SpeculationSpace
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Conclusion
from spectune.report.savings import savings
from tests.support.histories import BASELINE, DRAFTS, Story, draft, spec

DONE = CampaignEnded(1000.0, Conclusion(BASELINE.id, False, ""))


def texts(story: Story) -> list[str]:
    return [note.text for note in savings(story.history.then(DONE))]


def test_depths_left_out_are_counted_and_timed() -> None:
    story = Story().baselines().trial(draft(2)).trial(draft(3)).trial(draft(3), Purpose.CONFIRM)
    (text,) = texts(story)
    assert text.startswith("2 of 4 depths asked for were launched: a grid would have started the server 2 times more")
    assert "about 2" in text


def test_a_depth_ruled_out_without_a_launch_is_saved() -> None:
    story = Story().baselines().trial(draft(1)).trial(draft(2)).trial(draft(3))
    story.trial(draft(4), state=TrialState.PRUNED)
    assert texts(story)[0].startswith(
        "3 of 4 depths asked for were launched: a grid would have started the server 1 time"
    )


def test_schedules_and_other_draft_models_are_not_depths_of_the_grid() -> None:
    chain = draft(4).speculation
    story = Story().baselines().trial(draft(1))
    story.trial(Candidate(replace(chain, schedule=((1, 4), (8, 1)))))
    story.trial(Candidate(Speculation(Method.DRAFT, 3, draft_model="/other.gguf")))
    assert texts(story)[0].startswith("1 of 4 depths")


@pytest.mark.parametrize("depths", [(1, 2), ()])
def test_nothing_is_said_where_nothing_was_left_out(depths: tuple[int, ...]) -> None:
    spaces = (SpeculationSpace(Method.DRAFT, depths, draft_model=DRAFTS.draft_model),) if depths else ()
    story = Story(spec(search=SearchSpec(speculation=spaces))).baselines().trial(draft(1)).trial(draft(2))
    assert texts(story) == []


def test_nothing_is_said_before_the_end() -> None:
    assert list(savings(Story().baselines().trial(draft(1)).history)) == []
