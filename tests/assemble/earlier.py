"""A new campaign made ready, and earlier ones of it in a ledger, on a machine whose speeds are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bench.search.simulate import decide, events, opened
from bench.search.surfaces import random_surfaces
from spectune.assemble.campaigns import Prepared
from spectune.domain.candidate import Candidate
from spectune.domain.events import CampaignEnded, CampaignOpened, Decided
from spectune.domain.history import History
from spectune.domain.ports import Proposal
from spectune.domain.spec import BudgetSpec
from spectune.domain.trial import Purpose
from spectune.domain.verdict import Conclusion
from spectune.engines.llamacpp.adapter import LlamaCpp
from spectune.ledger.store import SqlLedger
from spectune.search.staged import at_depth
from spectune.workload import builtin_source

SURFACE = random_surfaces(1, seed=3)[0]
SPACE = SURFACE.spec.search.speculation[0]


def start() -> CampaignOpened:
    """A campaign's opening event with what tells models and machines apart."""
    event = opened(SURFACE).opened
    info = builtin_source(seed=1).info
    return replace(event, provenance=replace(event.provenance, files={"model": "sha-1"}, workload=info))


def prepared(**changes: object) -> Prepared:
    """A new campaign of the same service, with other fields of its specification."""
    event = start()
    spec = replace(SURFACE.spec, name="new", budget=BudgetSpec(confirm_pairs=2), **changes)  # type: ignore[arg-type]
    service = replace(event.service, model=__file__)  # a file that has a size
    prompts = builtin_source(seed=1)
    return Prepared(spec, LlamaCpp(), service, Candidate(), {}, prompts, (), event.provenance)


def write(ledger: SqlLedger, event: CampaignOpened, finished: bool = True, depths: tuple[int, ...] = (2,)) -> str:
    """A campaign of two baselines and a few depths of the first method."""
    name = ledger.open(event)
    history, rng = History(event), np.random.default_rng(1)
    for candidate in (Candidate(), Candidate(), *(at_depth(Candidate(), SPACE, depth) for depth in depths)):
        purpose = Purpose.EXPLORE if candidate.speculation.depth else Purpose.BASELINE
        made = list(events(SURFACE, history, Proposal(candidate, purpose, ""), 0.01, rng))
        for step in made:
            history = history.then(step)
        made.append(Decided(history.spent_s, max(history.trials), decide(SURFACE, history, 0.01)))
        history = history.then(made[-1])
        for step in made:
            ledger.append(name, step)
    if finished:
        ledger.append(name, CampaignEnded(1.0, Conclusion(Candidate().id, False, "")))
    return name
