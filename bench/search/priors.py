"""What an earlier campaign saves the guided search, on surfaces whose truth is known.

    python -m bench.search.priors [--seeds 3] [--surfaces 24] [--noise 0.03] [--workers 2]

Every surface is searched without a prior, with a true one (a guided campaign on the same machine, each candidate of
which was 3 % faster or slower then), and with a misleading one (this machine's baseline, another machine's gains).
Prints Markdown.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.search import tables
from bench.search.series import workers
from bench.search.simulate import opened, pooled_best, with_trial
from bench.search.surfaces import Surface, Truth, of_space, random_surfaces
from spectune.domain.history import History
from spectune.domain.ports import Stop
from spectune.domain.priors import Prior, PriorTrial
from spectune.domain.trial import Purpose
from spectune.predict.speed import SpeedForecaster
from spectune.search.guided import Guided

FORECASTER = SpeedForecaster()
DRIFT = 0.03
KINDS = ("none", "true", "misleading")


@dataclass(frozen=True, slots=True)
class Found:
    """A campaign's end: launches beyond the two baselines, and regret as a share."""

    launches: int
    regret: float


@dataclass(frozen=True, slots=True)
class Job:
    """One surface searched once with each kind of prior."""

    surfaces: int
    place: int
    seed: int
    noise: float


def play(job: Job) -> dict[str, Found]:
    """Kind of prior -> how the search ended. All three share the seed, and with it the noise of their first trials."""
    known = random_surfaces(job.surfaces)
    surface = known[job.place]
    rng = np.random.default_rng([job.seed, job.place])
    other = known[(job.place + int(rng.integers(1, len(known)))) % len(known)]
    past = job.seed + 1_000_000
    earlier = {"true": drifted(surface, job.seed, DRIFT), "misleading": misleading(surface, other)}
    priors = {kind: [prior_of(searched(then, past, noise=job.noise))] for kind, then in earlier.items()}
    ends = {kind: searched(surface, job.seed, priors.get(kind, ()), job.noise) for kind in KINDS}
    return {kind: Found(launches(end), regret(surface, end)) for kind, end in ends.items()}


def table(played: Sequence[dict[str, Found]]) -> Iterator[str]:
    yield "| prior | campaigns | launches, mean | median | 95 of 100 | regret, mean | largest regret |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for kind in KINDS:
        needed = np.array([one[kind].launches for one in played], float)
        lost = 100 * np.array([one[kind].regret for one in played])
        median, high = tables.quantiles(needed)
        seen = f"{needed.mean():.2f} | {median:g} | {high:g} | {lost.mean():.2f} % | {lost.max():.1f} %"
        yield f"| {kind} | {len(played)} | {seen} |"


def searched(surface: Surface, seed: int, priors: Iterable[Prior] = (), noise: float = 0.02) -> History:
    """A campaign up to its confirmation."""
    rng, history = np.random.default_rng([seed, 7]), opened(surface)
    history = replace(history, opened=replace(history.opened, priors=tuple(priors)))
    while True:
        step = Guided(FORECASTER).propose(surface.spec, history)
        if isinstance(step, Stop) or step.purpose is Purpose.CONFIRM:
            return history
        history = with_trial(surface, history, step, noise, rng)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="campaigns for each surface and kind of prior")
    parser.add_argument("--surfaces", type=int, default=24)
    parser.add_argument("--noise", type=float, default=0.03, help="sd of a trial's log speed")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    started = time.monotonic()
    places = [(place, seed) for seed in range(options.seeds) for place in range(options.surfaces)]
    jobs = [Job(options.surfaces, place, seed, options.noise) for place, seed in places]
    with workers(options.workers) as pool:
        print("\n".join(table(list(pool.map(play, jobs)))))
    print(f"\n{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
