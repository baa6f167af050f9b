from __future__ import annotations

import pytest

from spectune.domain.errors import LedgerError
from spectune.domain.events import (
    CampaignEnded,
    CampaignPaused,
    CampaignResumed,
    Decided,
    Promoted,
    RolledBack,
    TrialEnded,
    TrialStarted,
)
from spectune.domain.history import History
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Conclusion, Decision
from tests.support.histories import BASELINE, Story, draft, opened, verdict


def test_needs_an_opening() -> None:
    with pytest.raises(LedgerError, match="no opening event"):
        History.of([])


def test_is_opened_once() -> None:
    with pytest.raises(LedgerError, match="opened twice"):
        History.of([opened(), opened()])


def test_refuses_events_of_trials_that_never_started() -> None:
    with pytest.raises(LedgerError, match="trial 7 was never started"):
        History.of([opened(), TrialEnded(1.0, 7, TrialState.VALID, "")])


def test_incumbent_is_the_last_kept_exploration() -> None:
    story = Story().baselines()
    assert story.history.incumbent == BASELINE
    story.trial(draft(1), decided=verdict(Decision.KEEP)).trial(draft(2), decided=verdict(Decision.REVERT))
    assert story.history.incumbent == draft(1)
    story.trial(draft(3), Purpose.CONFIRM, decided=verdict(Decision.KEEP))
    assert story.history.incumbent == draft(1)


def test_open_trials_are_the_undecided_ones() -> None:
    history = Story().baselines().history
    assert history.open_trials == ()
    started = history.then(TrialStarted(200.0, 3, 1, draft(1), Purpose.EXPLORE, ""))
    assert [trial.ended_at for trial in started.open_trials] == [None]
    ended = started.then(TrialEnded(260.0, 3, TrialState.VALID, ""))
    assert [trial.number for trial in ended.open_trials] == [3]
    assert ended.then(Decided(260.0, 3, verdict(Decision.TIE))).open_trials == ()


def test_two_trials_side_by_side_know_each_other_and_their_time_counts_once() -> None:
    history = Story().baselines().history
    spent = history.spent_s
    history = history.then(TrialStarted(200.0, 3, 1, BASELINE, Purpose.CONFIRM, "", beside=draft(1)))
    assert [(t.number, t.candidate, t.beside) for t in history.open_trials] == [(3, BASELINE, 4), (4, draft(1), 3)]
    for number in (3, 4):
        history = history.then(TrialEnded(260.0, number, TrialState.VALID, ""))
    assert history.spent_s - spent == 60


def test_a_new_attempt_replaces_the_old_one_and_is_counted() -> None:
    history = Story().baselines().history
    history = history.then(TrialStarted(200.0, 3, 1, draft(1), Purpose.EXPLORE, ""))
    history = history.then(CampaignResumed(900.0, "0"))
    history = history.then(TrialStarted(900.0, 3, 2, draft(1), Purpose.EXPLORE, ""))
    assert len(history.trials) == 3
    assert history.trials[3].attempt == 2
    assert (history.abandoned, history.resumed) == (1, 1)


def test_time_between_kill_and_resume_is_not_spent() -> None:
    history = Story().baselines().history
    history = history.then(TrialStarted(200.0, 3, 1, draft(1), Purpose.EXPLORE, ""))
    history = history.then(TrialStarted(9000.0, 3, 2, draft(1), Purpose.EXPLORE, ""))
    assert history.then(TrialEnded(9060.0, 3, TrialState.VALID, "")).spent_s == 180


def test_resuming_an_ended_campaign_reopens_it() -> None:
    history = Story().baselines().history.then(CampaignEnded(200.0, Conclusion("x", False, "")))
    assert history.conclusion is not None
    assert history.then(CampaignResumed(300.0, "0")).conclusion is None


def test_a_pause_is_no_interruption() -> None:
    history = Story().baselines().history.then(CampaignPaused(200.0, 900.0, "the window ends"))
    assert (history.pauses, history.resumed) == (1, 0)
    on = history.then(CampaignResumed(901.0, "0")).then(TrialStarted(902.0, 3, 1, draft(1), Purpose.EXPLORE, ""))
    assert (on.pauses, on.resumed, on.abandoned) == (1, 0, 0)
    assert on.then(CampaignResumed(950.0, "0")).resumed == 1
    # Killed before a trial of the next window began.
    assert history.then(CampaignResumed(901.0, "0")).then(CampaignResumed(902.0, "0")).resumed == 1


def promoted(number: int, at: float = 300.0, where: str = "box") -> Promoted:
    return Promoted(at, draft(number).id, draft(number).label, "llm.service", where, number, "/etc/x")


def test_promotions_in_force() -> None:
    ended = Story().baselines().history.then(CampaignEnded(250.0, Conclusion(None, False, "")))
    both = ended.then(promoted(1)).then(promoted(2))
    assert both.promoted == (promoted(1), promoted(2))
    assert both.conclusion == ended.conclusion
    one = both.then(RolledBack(400.0, "llm.service", "box", 2))
    assert one.promoted == (promoted(1),)
    # Another host's promotion of the same number is another one.
    assert one.then(RolledBack(401.0, "llm.service", "two", 1)).promoted == (promoted(1),)
    # A number that is given again replaces the earlier one, undone from elsewhere.
    assert one.then(promoted(1, at=500.0)).promoted == (promoted(1, at=500.0),)
    assert one.then(RolledBack(600.0, "llm.service", "box", 1)).promoted == ()
    assert len(one.in_service) == 3
