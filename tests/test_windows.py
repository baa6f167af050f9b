"""Campaigns in maintenance windows, in simulated time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest

from spectune.cli.windows import in_windows
from spectune.domain.errors import InputError
from spectune.domain.events import CampaignPaused
from spectune.domain.history import History
from spectune.domain.ports import Limits, Target
from spectune.domain.spec import BudgetSpec
from spectune.domain.trial import MeasuredCell, TrialState
from spectune.domain.verdict import Conclusion
from spectune.domain.window import Pause, Window
from spectune.domain.workload import Cell, Prompt
from tests.support import loop
from tests.support.fake_rooms import FakeClock, FakeLoad, Killed, World
from tests.support.loop import campaign, finished, outline

SPEC = replace(loop.SPEC, budget=BudgetSpec(confirm_pairs=1, cell_seconds=60))
CELL_S = 60.0
WINDOW = Window.parse("01:00-01:40", UTC)
"""Room for some five trials of six cells."""


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@dataclass
class TakesTime(FakeLoad):
    """Every cell takes a minute, and those of one attempt more.

    Attributes:
        slow: mark of that attempt.
    """

    slow: str = ""
    slow_s: float = 0.0

    def measure(
        self, target: Target, cell: Cell, prompts: Iterator[Prompt], limits: Limits, progress: Callable[[str], None]
    ) -> MeasuredCell:
        self.world.time += self.slow_s if self.slow in self.world.running else CELL_S
        return super().measure(target, cell, prompts, limits, progress)


@dataclass
class Night(FakeClock):
    """Time that passes between windows, in which no server may run. It ends with a kill where that is asked for."""

    killed_at: float = float("inf")
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        assert not self.world.running
        super().sleep(seconds)
        self.slept.append(seconds)
        if self.world.time >= self.killed_at:
            raise Killed


@dataclass
class Desk:
    """What one call of the command after the other does."""

    window: Window = WINDOW
    world: World = field(default_factory=lambda: World(time=at("2026-03-01 00:30")))
    slow: str = ""
    slow_s: float = 0.0
    said: list[str] = field(default_factory=list)

    def once(self) -> Conclusion | Pause:
        load = TakesTime(self.world, self.slow, self.slow_s)
        return campaign(self.world, SPEC, load=load).run_within(self.window)

    def run(self, clock: Night | None = None) -> Conclusion:
        return in_windows(self.window, self.once, clock or Night(self.world), self.said.append)

    @property
    def history(self) -> History:
        return History.of(self.world.events)

    def all_within(self) -> bool:
        """Every trial began and ended in one and the same window."""
        spans = [(t.started_at, t.ended_at, self.window.around(t.started_at)) for t in self.history.ordered]
        return all(begin <= start and end is not None and end <= last for start, end, (begin, last) in spans)


def test_it_pauses_between_windows_and_comes_to_the_same_end() -> None:
    desk = Desk()
    conclusion = desk.run()
    assert outline(desk.world) == outline(finished(SPEC))
    assert conclusion.changed
    assert desk.all_within()
    assert (desk.history.pauses, desk.history.resumed, desk.history.abandoned) == (1, 0, 0)
    pause = next(event for event in desk.world.events if isinstance(event, CampaignPaused))
    assert pause.until == at("2026-03-02 01:00")
    assert "it is not open yet" in desk.said[0]
    assert "going on at 2026-03-01 01:00 UTC" in desk.said[1]
    assert "a trial and the way back take about 7 min, and the window ends in" in desk.said[2]
    assert "time zone of this machine" in desk.said[2]


def test_windows_across_midnight() -> None:
    desk = Desk(Window.parse("23:40-00:20", UTC))
    desk.run()
    assert desk.all_within()
    assert len({desk.window.around(trial.started_at)[0] for trial in desk.history.ordered}) == 2


def test_nothing_is_started_outside() -> None:
    desk = Desk()
    assert desk.once() == Pause(at("2026-03-01 01:00"), "it is not open yet")
    assert [event.kind for event in desk.world.events] == ["campaign-opened"]
    assert not desk.world.marks


@pytest.mark.parametrize("killed_at", ["2026-03-01 00:40", "2026-03-01 01:50", "2026-03-02 00:59"])
def test_killed_in_a_pause_it_goes_on_in_the_next_window(killed_at: str) -> None:
    desk = Desk()
    with pytest.raises(Killed):
        desk.run(Night(desk.world, at(killed_at)))
    desk.run()
    assert outline(desk.world) == outline(finished(SPEC))
    assert desk.all_within()
    # Nothing was cut off by that.
    assert (desk.history.resumed, desk.history.abandoned) == (0, 0)


@pytest.mark.parametrize("before", [True, False])
def test_killed_at_any_event_it_goes_on(before: bool) -> None:
    whole = Desk()
    whole.run()
    # Every other event for each way; tests/test_campaign.py has all of them, without windows.
    for kill_at in range(1 + before, len(whole.world.events), 2):
        desk = Desk(world=World(time=at("2026-03-01 00:30"), kill_at=kill_at, kill_before_write=before))
        with pytest.raises(Killed):
            desk.run()
        desk.world.kill_at = None
        desk.run()
        assert outline(desk.world) == outline(whole.world), kill_at
        assert desk.all_within()


def test_a_trial_that_goes_on_beyond_the_window_is_given_up_and_made_again() -> None:
    desk = Desk(slow="c1.5.1", slow_s=400)
    desk.run()
    assert outline(desk.world) == outline(finished(SPEC))
    assert desk.history.abandoned == 1
    assert desk.history.trials[5].attempt == 2
    assert len(desk.history.trials[5].cells) == len(SPEC.cells)
    assert desk.all_within()
    assert any("the window ended in the midst of trial 5" in text for text in desk.said)


def test_a_window_too_short_for_a_trial_is_refused() -> None:
    desk = Desk(Window.parse("01:00-01:05", UTC))
    with pytest.raises(InputError, match="take about 7 min, and the window is 5 min long"):
        desk.run()
    assert not desk.world.marks


def test_a_window_that_turns_out_too_short_is_refused_once() -> None:
    desk = Desk(slow="c1.1.1", slow_s=1000)
    with pytest.raises(InputError, match="trial 1 had all of the window and did not end in it"):
        desk.run()
    assert not desk.world.running
    # A longer one goes on from there.
    desk.window = Window.parse("01:00-05:00", UTC)
    desk.run()
    assert outline(desk.world) == outline(finished(SPEC))


def test_what_trials_took_is_learned() -> None:
    desk = Desk()
    desk.run()
    ended = [trial.ended_at - trial.started_at for trial in desk.history.ordered if trial.ended_at]
    paused_at = next(event.at for event in desk.world.events if isinstance(event, CampaignPaused))
    left = WINDOW.around(at("2026-03-01 01:00"))[1] - paused_at
    assert left < 1.1 * max(ended) + 2
    assert all(trial.state is TrialState.VALID for trial in desk.history.ordered)
