"""The loop over fake rooms: what it ends in, and going on after a kill at any moment."""

from __future__ import annotations

from typing import Any

import pytest

from spectune.domain.errors import EngineFailure, EngineUnusable, FailureKind, LedgerError, PortTaken
from spectune.domain.events import Event, Measured
from spectune.domain.history import History
from spectune.domain.trial import Purpose, TrialState
from tests.support.fake_rooms import FakeLedger, Killed, World
from tests.support.loop import BESIDE, SPEC, campaign, finished, outline


def test_goes_from_baseline_to_confirmed_winner() -> None:
    world = finished()
    history = History.of(world.events)
    assert [depth for _, depth, _, _ in outline(world)] == [0, 0, 1, 2, 3, 2, 0]
    assert history.conclusion is not None
    assert history.candidates[history.conclusion.winner or ""].speculation.depth == 2
    assert not world.running


def test_a_baseline_that_does_not_serve_ends_the_campaign() -> None:
    world = World(fails={0: EngineFailure(FailureKind.EXITED, "exit code 1")})
    with pytest.raises(EngineUnusable, match="no memory"):
        campaign(world).run()
    assert History.of(world.events).conclusion is not None
    assert len(outline(world)) == 1


def test_a_taken_port_is_the_users_to_free_and_the_campaign_goes_on_afterwards() -> None:
    world = World(port_taken=True)
    with pytest.raises(PortTaken):
        campaign(world).run()
    world.port_taken = False
    campaign(world).run()
    assert outline(world) == outline(finished())


@pytest.mark.parametrize("before_write", [False, True])
@pytest.mark.parametrize("moment", range(1, len(finished().events)))
def test_goes_on_after_a_kill_at_any_moment(moment: int, before_write: bool) -> None:
    world = World(kill_at=moment, kill_before_write=before_write)
    with pytest.raises(Killed):
        campaign(world).run()
    world.kill_at = None
    if History.of(world.events).conclusion is None:
        campaign(world).run()
    assert outline(world) == outline(finished())
    assert not world.running


@pytest.mark.parametrize("before_write", [False, True])
@pytest.mark.parametrize("moment", range(1, len(finished(BESIDE).events)))
def test_goes_on_after_a_kill_side_by_side(moment: int, before_write: bool) -> None:
    world = World(kill_at=moment, kill_before_write=before_write)
    with pytest.raises(Killed):
        campaign(world, BESIDE).run()
    world.kill_at = None
    if History.of(world.events).conclusion is None:
        campaign(world, BESIDE).run()
    assert outline(world) == outline(finished(BESIDE))
    assert not world.running


def test_an_attempt_that_was_cut_off_has_a_mark_of_its_own() -> None:
    world = World(kill_at=5)
    with pytest.raises(Killed):
        campaign(world).run()
    world.kill_at = None
    campaign(world).run()
    assert world.marks[:2] == ["c1.1.1", "c1.1.2"]


class FullLedger(FakeLedger):
    def append(self, campaign: str, event: Event) -> None:
        raise LedgerError("no space left for the ledger")


def test_a_full_disk_stops_the_loop_at_once() -> None:
    world = World()
    with pytest.raises(LedgerError, match="no space"):
        campaign(world, ledger=FullLedger(world)).run()
    assert not world.marks


def test_winner_and_baseline_are_confirmed_side_by_side() -> None:
    world = finished(BESIDE)
    assert outline(world)[-2:] == [
        (6, 0, Purpose.CONFIRM, TrialState.VALID),
        (7, 2, Purpose.CONFIRM, TrialState.VALID),
    ]
    measured = [event.trial for event in world.events if isinstance(event, Measured) and event.trial > 5]
    assert measured == [6, 7] * len(SPEC.cells)
    assert [mark for mark in world.marks if mark.startswith(("c1.6", "c1.7"))] == ["c1.6.1", "c1.7.1"]


@pytest.mark.parametrize("trouble", [{"dies_measuring": 7}, {"fails_beside": True}])
def test_servers_that_do_not_get_on_are_confirmed_one_after_the_other(trouble: dict[str, Any]) -> None:
    world = World(**trouble)
    campaign(world, BESIDE).run()
    ends = [(depth, state) for _, depth, purpose, state in outline(world) if purpose is Purpose.CONFIRM]
    pruned, valid = TrialState.PRUNED, TrialState.VALID
    assert ends == [(0, pruned), (2, pruned), (2, valid), (0, valid)]
    assert "side by side did not work" in History.of(world.events).trials[6].state_reason
    assert not world.running
