"""How often a small true gain is found within a budget, and how often there is none and one is promoted.

    python -m bench.judge.power [--engine dense-8b-eagle3] [--campaigns 40] [--seed 1] [--workers 2]

Prints a table of docs/statistics.md as Markdown. A campaign is the default one (1, 2 and 4 users at two temperatures,
30 s each), played by the real judge and the real plan of confirmations: two baselines and three explorations, one
more than the guided search needs on average, then pairs of whatever looked best, even where a search would not have
confirmed it. With --engine, requests are those of the simulated engine with this profile, whose starts take their
time; without, those of a rougher machine (`bench.judge.machine`), where requests stall and prompts differ.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np

from bench.judge.coverage import GAINING, Tally, Truth, overall, true_gains
from bench.judge.engine import EngineMachine
from bench.judge.machine import BASELINE, Machine, candidate, steady
from spectune.domain.candidate import Candidate
from spectune.domain.spec import BudgetSpec, CampaignSpec
from spectune.domain.trial import Purpose
from spectune.judge.comparison import Comparer
from spectune.judge.paired import PairedJudge
from spectune.search.bracket import confirmation
from spectune.sim import library
from spectune.sim.model import Speeds

NOISES = (0.005, 0.01, 0.02)
MINUTES = (60.0, 90.0)
GAIN = 0.03
DEPTHS = (2, 3, 4)
PROMPTS = 3
"""In a slice, for each user: 30 s hold about ten requests of 129 tokens at 45 tok/s, of three domains."""


def campaign(noise: float, gain: float | None, seed: int, engine: str = "") -> Iterator[tuple[float, bool, float, int]]:
    """One campaign, with the smaller budget and then gone on with to the larger one.

    Args:
        gain: of one candidate, the others losing by depth; None where all are the baseline under other names.
        engine: profile of the simulated engine; "" for the rougher machine.

    Yields:
        Minutes of the budget, whether a candidate was promoted, the interval's half-width, and pairs made.
    """
    rng, spec = np.random.default_rng(seed), CampaignSpec("power")
    machine = on_engine(spec, noise, gain, rng, engine) if engine else on_rough(spec, noise, gain, rng)
    for depth in (0, 0, *rng.permutation(DEPTHS)):
        purpose = Purpose.EXPLORE if depth else Purpose.BASELINE
        machine.measure(candidate(int(depth)) if depth else BASELINE, purpose)
    chosen = looks_best(spec, machine, DEPTHS)
    for minutes in MINUTES:
        yield minutes, *confirmed(replace(spec, budget=BudgetSpec(minutes=minutes)), machine, chosen)


def on_rough(spec: CampaignSpec, noise: float, gain: float | None, rng: np.random.Generator) -> Machine:
    truth: Truth = {} if gain is None else {candidate(k).id: true_gains(spec, k, gain, rng) for k in DEPTHS}
    trial_s = spec.budget.cell_seconds * len(spec.cells)
    return Machine(spec, steady(noise), rng, truth, PROMPTS, trial_s, per_user=True)


def on_engine(
    spec: CampaignSpec, noise: float, gain: float | None, rng: np.random.Generator, name: str
) -> EngineMachine:
    """The baseline drafts as deep as the candidate that gains, so that both scatter; the rest is in its steps' time."""
    profile = library.load(name)
    names = {candidate(k).id: k for k in DEPTHS}
    gains = {} if gain is None else {one: overall(k, gain) for one, k in names.items()}
    trial_s = spec.budget.cell_seconds * len(spec.cells)
    return EngineMachine(
        spec, steady(noise), rng, {}, trial_s=trial_s, start_s=profile.load_seconds,
        speeds=Speeds(profile), depths={BASELINE.id: GAINING, **names}, gains=gains,
    )  # fmt: skip


def looks_best(spec: CampaignSpec, machine: Machine, depths: Sequence[int]) -> Candidate:
    """Of the candidates of these depths, by all trials so far."""
    known = Comparer.of(spec, machine.history.finished)

    def log_gain(tried: Candidate) -> float:
        found = known.compare(tried.id, BASELINE.id)
        gain = found.gain() if found is not None else None
        return -math.inf if gain is None else gain.log

    return max(map(candidate, depths), key=log_gain)


def confirmed(spec: CampaignSpec, machine: Machine, chosen: Candidate) -> tuple[bool, float, int]:
    """Confirms until the plan ends: whether the winner is promoted, half-width of its interval, and pairs."""
    judge, width, pairs = PairedJudge(), math.nan, 0
    while (step := confirmation(spec, machine.history, chosen)) is not None:
        trial = machine.measure(step.candidate, step.purpose)
        if step.candidate != BASELINE:
            machine.note(trial, judge.decide(spec, machine.history, trial))
    arms = [t for t in machine.history.ordered if t.purpose is Purpose.CONFIRM and t.candidate != BASELINE]
    pairs = len(arms)
    overall = judge.decide(spec, machine.history, arms[-1]).overall
    if overall is not None:
        width = math.log(overall.high / overall.low) / 2
    return judge.conclude(spec, machine.history).changed, width, pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=40, help="per line; three times as many where nothing gains")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--engine", choices=library.names(), default="", help="profile of the simulated engine")
    options = parser.parse_args()
    started = time.monotonic()
    kinds = [GAIN] * options.campaigns + [None] * (3 * options.campaigns)
    jobs = [(noise, gain, options.engine) for noise in NOISES for gain in kinds]
    seeds = range(options.seed * 3_000_017 + 1, options.seed * 3_000_017 + 1 + len(jobs))
    print("| noise | budget | 3 % gain found | none, but promoted | pairs, mean | half-width |")
    print("| --- | --- | --- | --- | --- | --- |")
    with ProcessPoolExecutor(options.workers) as pool:
        played = pool.map(_job, jobs, seeds, chunksize=10)
        for noise in NOISES:
            tallies = {minutes: Tally() for minutes in MINUTES}
            made: dict[float, list[int]] = {minutes: [] for minutes in MINUTES}
            for gain, looks in zip(kinds, played, strict=False):
                for minutes, promoted, width, pairs in looks:
                    tallies[minutes].add("false" if gain is None else "found", promoted)
                    if gain is not None:
                        tallies[minutes].widths.append(width)
                        made[minutes].append(pairs)
            for minutes, tally in tallies.items():
                half = f"{100 * np.median(tally.widths):.1f} %"
                shares = f"{tally.share('found')} | {tally.share('false')}"
                print(
                    f"| {100 * noise:g} % | {minutes:g} min | {shares} | {np.mean(made[minutes]):.1f} | {half} |",
                    flush=True,
                )
    print(f"\n{time.monotonic() - started:.0f} s")


def _job(job: tuple[float, float | None, str], seed: int) -> list[tuple[float, bool, float, int]]:
    noise, gain, engine = job
    return list(campaign(noise, gain, seed, engine))


if __name__ == "__main__":
    main()
