"""How often the luck of a few prompts is taken for a gain.

    python -m bench.judge.luck [--campaigns 320] [--seed 1] [--workers 2]

Prints a table of docs/statistics.md as Markdown. Six candidates are as fast as the baseline over all prompts that there
are, and faster or slower on each single one. Whoever looks best in the explorations is confirmed, whether or not a
search would have, in two hours of pairs.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np

from bench.judge.machine import BASELINE, DOMAINS, Machine, candidate, steady
from bench.judge.power import confirmed, looks_best
from spectune.domain.spec import BudgetSpec, CampaignSpec
from spectune.domain.trial import Purpose

NOISES = (0.005, 0.01)
EFFECTS = ((0.08, 3, True), (0.2, 3, True), (0.2, 2, False))
"""Standard deviation of an effect from prompt to prompt, prompts a slice, and whether each user has so many."""

DEPTHS = (1, 2, 3, 4, 5, 6)
ORDER = (0, 0, 1, 2, 3, 0, 4, 5, 6, 0)
MINUTES = 120.0

Job = tuple[float, float, int, bool, int]


def campaign(job: Job) -> tuple[bool, float, int]:
    """Whether the one that looked best was promoted, the interval's half-width, and pairs made."""
    noise, effect, prompts, per_user, seed = job
    spec = CampaignSpec("luck")
    even = {(cell.key, domain): 0.0 for cell in spec.cells for domain in DOMAINS}
    weather = replace(steady(noise), prompt=effect)
    truth = {candidate(depth).id: even for depth in DEPTHS}
    seconds = spec.budget.cell_seconds * len(spec.cells)
    machine = Machine(spec, weather, np.random.default_rng(seed), truth, prompts, seconds, per_user)
    for depth in ORDER:
        machine.measure(candidate(depth) if depth else BASELINE, Purpose.EXPLORE if depth else Purpose.BASELINE)
    chosen = looks_best(spec, machine, DEPTHS)
    return confirmed(replace(spec, budget=BudgetSpec(minutes=MINUTES)), machine, chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=320, help="per line")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    started = time.monotonic()
    print("| noise | effects differ by | prompts a slice | promoted | half-width | pairs, mean |")
    print("| --- | --- | --- | --- | --- | --- |")
    with ProcessPoolExecutor(options.workers) as pool:
        for noise in NOISES:
            for effect, prompts, per_user in EFFECTS:
                seeds = range(options.seed * 7000, options.seed * 7000 + options.campaigns)
                jobs = [(noise, effect, prompts, per_user, seed) for seed in seeds]
                promoted, widths, pairs = zip(*pool.map(campaign, jobs, chunksize=5), strict=True)
                each = f"{prompts} a user" if per_user else f"{prompts}"
                seen = f"{100 * np.mean(promoted):.1f} % | {100 * np.median(widths):.1f} % | {np.mean(pairs):.1f}"
                print(f"| {100 * noise:g} % | {100 * effect:g} % | {each} | {seen} |", flush=True)
    print(f"\n{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
