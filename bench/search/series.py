"""A series of simulated campaigns, made in blocks by several processes."""

from __future__ import annotations

import multiprocessing
import os
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np

from bench.search.outcomes import Key
from bench.search.simulate import Outcome, Taken, judged_best, pooled_best, run
from bench.search.surfaces import Surface, measured, published, random_surfaces
from spectune.domain.history import History
from spectune.domain.ports import Proposal, Stop, Strategy
from spectune.domain.spec import CampaignSpec
from spectune.predict.speed import SpeedForecaster
from spectune.search.grid import Grid
from spectune.search.guided import Guided
from spectune.search.incremental import Incremental
from spectune.search.random_order import RandomOrder
from spectune.search.samplers import Sampled
from spectune.search.staged import Staged

BLOCK = 10
"""Campaigns that a worker makes in one go."""

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""The matrices are small: threads of a linear algebra library cost more than they save."""


@dataclass(frozen=True, slots=True)
class Unsatisfied:
    """A strategy that is told that every gain counts, however small: it spends a budget that it would leave else."""

    inner: Strategy

    def propose(self, spec: CampaignSpec, history: History) -> Proposal | Stop:
        return self.inner.propose(replace(spec, objective=replace(spec.objective, min_gain=0.0)), history)


STRATEGIES: dict[str, Callable[[int], Strategy]] = {
    "guided": lambda seed: Guided(SpeedForecaster()),
    "guided-on": lambda seed: Unsatisfied(Guided(SpeedForecaster())),
    "staged": lambda seed: Staged(),
    "incremental": lambda seed: Incremental(),
    "grid": lambda seed: Grid(),
    "random": RandomOrder,
    "tpe": lambda seed: Sampled("tpe"),
    "gp": lambda seed: Sampled("gp"),
}
"""Name -> strategy for a seed."""

TAKEN: dict[str, Taken] = dict.fromkeys(("guided", "guided-on"), pooled_best(SpeedForecaster()))
"""Name -> how a strategy names its best; all others by the judge's scores."""


@dataclass(frozen=True, slots=True)
class Block:
    """Campaigns of one strategy on one surface with one noise."""

    surfaces: int
    replay: Path | None
    keys: tuple[Key, ...]


@cache
def surfaces(count: int, replay: Path | None) -> tuple[Surface, ...]:
    found = random_surfaces(count)
    if replay is not None:
        found += [*published(replay / "autospec.json"), measured(replay / "llamacpp-draft.json")]
    return tuple(found)


def blocks(keys: Sequence[Key], count: int, replay: Path | None) -> Iterator[Block]:
    """The work in blocks, low seeds of everything first: at any time, strategies can be compared."""
    parts: dict[tuple[int, float, str, str], list[Key]] = {}
    for key in keys:
        parts.setdefault((key.seed // BLOCK, key.noise, key.surface, key.strategy), []).append(key)
    for _, part in sorted(parts.items()):
        yield Block(count, replay, tuple(part))


def workers(count: int) -> ProcessPoolExecutor:
    """Fresh processes of one thread each."""
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))


def finished(todo: Iterator[Block], count: int, seconds: float) -> Iterator[dict[Key, Outcome]]:
    """Outcomes of each block as it is done, by so many workers; no block is begun after so many seconds."""
    began = time.monotonic()
    with workers(count) as pool:
        running: set[Future[dict[Key, Outcome]]] = set()
        while True:
            if time.monotonic() - began < seconds:
                running |= {pool.submit(make, block) for block in islice(todo, 2 * count - len(running))}
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def make(block: Block) -> dict[Key, Outcome]:
    """Runs a block's campaigns. Strategies share the seeds, and with them the noise of their first trials."""
    first = block.keys[0]
    surface = next(s for s in surfaces(block.surfaces, block.replay) if s.name == first.surface)
    tag = zlib.crc32(surface.name.encode())
    made, taken = STRATEGIES[first.strategy], TAKEN.get(first.strategy, judged_best)
    return {
        key: run(_seeded(surface, key.seed), made(key.seed), key.noise, _rng(key.seed, tag), taken)
        for key in block.keys
    }


def _seeded(surface: Surface, seed: int) -> Surface:
    return replace(surface, spec=replace(surface.spec, seed=seed))


def _rng(seed: int, tag: int) -> np.random.Generator:
    return np.random.default_rng([seed, tag])
