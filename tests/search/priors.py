"""Campaigns of the guided search with what an earlier one measured, on surfaces whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from bench.search.simulate import decide, events, opened, pooled_best
from bench.search.surfaces import Surface, Truth, of_space
from spectune.domain.events import Decided
from spectune.domain.history import History
from spectune.domain.ports import Stop
from spectune.domain.priors import Prior, PriorTrial
from spectune.domain.trial import Purpose
from spectune.predict.speed import SpeedForecaster
from spectune.search.guided import Guided

FORECASTER = SpeedForecaster()


def searched(surface: Surface, seed: int, priors: Iterable[Prior] = (), noise: float = 0.02) -> History:
    """A campaign up to its confirmation."""
    rng, history = np.random.default_rng([seed, 7]), opened(surface)
    history = replace(history, opened=replace(history.opened, priors=tuple(priors)))
    while True:
        step = Guided(FORECASTER).propose(surface.spec, history)
        if isinstance(step, Stop) or step.purpose is Purpose.CONFIRM:
            return history
        for event in events(surface, history, step, noise, rng):
            history = history.then(event)
        history = history.then(Decided(history.spent_s, max(history.trials), decide(surface, history, noise)))


def launches(history: History) -> int:
    """Beyond the two baselines."""
    return len(history.finished) - 2


def regret(surface: Surface, history: History) -> float:
    """How much slower what would be taken is than the best, as a share."""
    return 1 - math.exp(surface.score(pooled_best(FORECASTER)(surface, history)) - surface.best)


def prior_of(history: History, *differs: str) -> Prior:
    return Prior("old", differs, tuple(PriorTrial.of(trial) for trial in history.finished))


def drifted(surface: Surface, seed: int, by: float) -> Surface:
    """The machine as it was then: every candidate by itself a little faster or slower."""
    rng = np.random.default_rng([seed, 11])
    truth = {}
    for name, cells in surface.truth.items():
        off = math.exp(rng.normal(0, by))
        truth[name] = {
            key: replace(cell, per_user=cell.per_user * off, aggregate=cell.aggregate * off)
            for key, cell in cells.items()
        }
    return replace(surface, truth=truth)


def misleading(surface: Surface, other: Surface) -> Surface:
    """This machine's baseline with another machine's gains, so that nothing but them gives the other away."""
    theirs = [other.truth[other.baseline.id]]
    theirs += [other.truth[candidate.id] for candidate in of_space(other.spec.search.speculation[0])]
    truth = {surface.baseline.id: surface.truth[surface.baseline.id]}
    for space in surface.spec.search.speculation:
        for place, candidate in enumerate(of_space(space), 1):
            row = theirs[min(place, len(theirs) - 1)]
            gains: dict[str, Truth] = {}
            for cell in surface.spec.cells:
                key = _alike(surface, other, cell.level.users)
                mine, base, made = truth[surface.baseline.id][cell.key], theirs[0][key], row[key]
                shares = (made.shares + (0.0,) * candidate.speculation.depth)[: candidate.speculation.depth]
                gains[cell.key] = Truth(
                    mine.per_user * made.per_user / base.per_user,
                    mine.aggregate * made.aggregate / base.aggregate,
                    shares,
                    made.drafting,
                )
            truth[candidate.id] = gains
    return replace(surface, truth=truth)


def _alike(surface: Surface, other: Surface, users: int) -> str:
    """Key of the other machine's cell at a load as far from its quietest one."""
    theirs = sorted(other.spec.workload.concurrency)
    level = theirs[min(sorted(surface.spec.workload.concurrency).index(users), len(theirs) - 1)]
    return next(cell.key for cell in other.spec.cells if cell.level.users == level)
