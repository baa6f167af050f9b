"""Campaigns of three drafting depths over fake rooms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spectune.campaign import Campaign, Rooms
from spectune.domain.candidate import Method
from spectune.domain.history import History
from spectune.domain.spec import BudgetSpec, CampaignSpec, SearchSpec, SpeculationSpace
from spectune.domain.trial import Purpose, TrialState
from spectune.search import Staged
from tests.support.fake_rooms import (
    PROBE,
    FakeClock,
    FakeDeployer,
    FakeEngine,
    FakeJudge,
    FakeLedger,
    FakeLoad,
    FakePrompts,
    FakeVerifier,
    Silent,
    World,
)
from tests.support.histories import opened

SPEC = CampaignSpec(
    name="t",
    search=SearchSpec(speculation=(SpeculationSpace(Method.DRAFT, depths=(1, 2, 3), draft_model="/d"),)),
    budget=BudgetSpec(confirm_pairs=1),
)

BESIDE = replace(SPEC, budget=BudgetSpec(confirm_pairs=1, side_by_side=True))


def campaign(world: World, spec: CampaignSpec = SPEC, **instead: Any) -> Campaign:
    """A new campaign, or the one that the world knows of, with some rooms put in the place of the usual ones."""
    if not world.events:
        world.events.append(opened(spec))
    rooms = Rooms(
        engine=FakeEngine(world),
        deployer=FakeDeployer(world),
        load=FakeLoad(world),
        prompts=FakePrompts(),
        probes=(PROBE,),
        verifier=FakeVerifier(world),
        strategy=Staged(),
        judge=FakeJudge(),
        ledger=FakeLedger(world),
        clock=FakeClock(world),
        observer=Silent(),
        beside=lambda service: replace(service, port=9999),
        load_average=lambda: 0.5,
        version="0",
    )
    return Campaign(replace(rooms, **instead), "c1", spec, opened().service)


def outline(world: World) -> list[tuple[int, int, Purpose, TrialState]]:
    """Trials that count: number, depth, purpose and state."""
    return [(t.number, t.candidate.speculation.depth, t.purpose, t.state) for t in History.of(world.events).ordered]


def finished(spec: CampaignSpec = SPEC) -> World:
    world = World()
    campaign(world, spec).run()
    return world
