"""How many launches each strategy needs, on known surfaces with noise.

    python -m bench.search [--seeds 2] [--surfaces 24] [--noise 0.01 0.03 0.05] [--strategies guided staged]
                           [--replay DIRECTORY] [--each]

Launches are counted after the two baselines; measuring the incumbent again counts. Confirmation is left out, since it
is the same for all. Prints Markdown; intervals are 95 % by bootstrap over campaigns.
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.search.simulate import Outcome, run
from bench.search.surfaces import Surface, measured, published, random_surfaces
from spectune.domain.errors import InputError
from spectune.domain.ports import Strategy
from spectune.predict.speed import SpeedForecaster
from spectune.search.grid import Grid
from spectune.search.guided import Guided
from spectune.search.incremental import Incremental
from spectune.search.random_order import RandomOrder
from spectune.search.samplers import Sampled
from spectune.search.staged import Staged

WITHIN = 0.02
BUDGETS = (3, 5, 8)
RESAMPLES = 1000
STRATEGIES: dict[str, Callable[[int], Strategy]] = {
    "guided": lambda seed: Guided(SpeedForecaster()),
    "staged": lambda seed: Staged(),
    "incremental": lambda seed: Incremental(),
    "grid": lambda seed: Grid(),
    "random": RandomOrder,
    "tpe": lambda seed: Sampled("tpe"),
    "gp": lambda seed: Sampled("gp"),
}
"""Name -> strategy for a seed."""


def available() -> list[str]:
    """Names of the strategies whose libraries are installed."""
    found = []
    for name, make in STRATEGIES.items():
        try:
            make(0)
        except InputError as error:
            print(f"left out: {error}")
        else:
            found.append(name)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2, help="campaigns for each surface, noise and strategy")
    parser.add_argument("--surfaces", type=int, default=24, help="random surfaces")
    parser.add_argument("--noise", type=float, nargs="+", default=(0.01, 0.03, 0.05), help="sd of a trial's log speed")
    parser.add_argument("--strategies", nargs="+", choices=sorted(STRATEGIES), default=available())
    parser.add_argument("--replay", type=Path, help="folder with autospec.json and llamacpp-draft.json")
    parser.add_argument("--each", action="store_true", help="a table of every surface too")
    options = parser.parse_args()
    started = time.monotonic()
    surfaces = random_surfaces(options.surfaces)
    if options.replay:
        surfaces += [*published(options.replay / "autospec.json"), measured(options.replay / "llamacpp-draft.json")]
    found = {
        (name, noise): {s.name: campaigns(s, STRATEGIES[name], noise, options.seeds) for s in surfaces}
        for noise in options.noise
        for name in options.strategies
    }
    print_summary(found)
    if options.each:
        print_each(found, [surface.name for surface in surfaces])
    count = sum(len(outcomes) for table in found.values() for outcomes in table.values())
    print(f"\n{count} campaigns on {len(surfaces)} surfaces, {time.monotonic() - started:.0f} s")


def campaigns(surface: Surface, make: Callable[[int], Strategy], noise: float, seeds: int) -> list[Outcome]:
    """One campaign a seed. Strategies share the seeds, and with them the noise of their first trials."""
    tag = zlib.crc32(surface.name.encode())
    return [run(_seeded(surface, seed), make(seed), noise, np.random.default_rng([seed, tag])) for seed in range(seeds)]


def _seeded(surface: Surface, seed: int) -> Surface:
    return replace(surface, spec=replace(surface.spec, seed=seed))


Found = Mapping[tuple[str, float], Mapping[str, Sequence[Outcome]]]


def print_summary(found: Found) -> None:
    needed_heads = "launches to within 2 %: median | p95 | never"
    print(f"| noise | strategy | {needed_heads} | {_regret_heads()} | launches in all |")
    print("| --- | --- | --- | --- | --- | " + "--- | " * len(BUDGETS) + "--- |")
    for (name, noise), table in found.items():
        outcomes = [outcome for of_surface in table.values() for outcome in of_surface]
        needed = np.array([_or_never(outcome) for outcome in outcomes])
        regrets = " | ".join(_mean(np.array([100 * outcome.after(n) for outcome in outcomes])) for n in BUDGETS)
        never = 100 * float(np.isinf(needed).mean())
        median, high = (np.quantile(needed, q, method="higher") for q in (0.5, 0.95))
        spent = _mean(np.array([len(outcome.regrets) - 1.0 for outcome in outcomes]))
        print(f"| {100 * noise:g} % | {name} | {median:g} | {high:g} | {never:.1f} % | {regrets} | {spent} |")


def print_each(found: Found, surfaces: Sequence[str]) -> None:
    print("\n| surface | noise | strategy | median launches | p95 | " + _regret_heads() + " |")
    print("| --- | --- | --- | --- | --- | " + "--- | " * len(BUDGETS))
    for surface in surfaces:
        for (name, noise), table in found.items():
            outcomes = table[surface]
            needed = np.array([_or_never(outcome) for outcome in outcomes])
            median, high = (np.quantile(needed, q, method="higher") for q in (0.5, 0.95))
            regrets = " | ".join(f"{np.mean([100 * o.after(n) for o in outcomes]):.1f}" for n in BUDGETS)
            print(f"| {surface} | {100 * noise:g} % | {name} | {median:g} | {high:g} | {regrets} |")


def _regret_heads() -> str:
    return " | ".join(f"regret after {n}, %" for n in BUDGETS)


def _or_never(outcome: Outcome) -> float:
    needed = outcome.launches_to(WITHIN)
    return float("inf") if needed is None else float(needed)


def _mean(values: np.ndarray) -> str:
    rng = np.random.default_rng(0)
    means = values[rng.integers(0, len(values), (RESAMPLES, len(values)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return f"{values.mean():.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    main()
