"""Does spectune promote what is no better? `python -m bench.faults.aa [--campaigns 50] [--seed 1]`.

Whole campaigns (search, judging, confirmation) in which every candidate is the baseline under another name, on machines
that scatter, drift and stall; nothing may be promoted. Pure simulation: the machine is bench.judge's.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import beta

from bench.judge.machine import WEATHERS, Machine, Weather, spec_of
from spectune.domain.candidate import Method
from spectune.domain.ports import Proposal
from spectune.domain.spec import CampaignSpec, SearchSpec, SpeculationSpace
from spectune.domain.verdict import Conclusion
from spectune.judge.paired import PairedJudge
from spectune.search import Staged

MOST = 80
"""Trials after which a campaign that never stops is given up."""


@dataclass(frozen=True, slots=True)
class Result:
    """Campaigns on one machine.

    Attributes:
        trials: of all campaigns together.
        promoted: campaigns that ended with something else than the baseline.
    """

    weather: str
    campaigns: int
    trials: int
    promoted: int


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.faults.aa", description=__doc__)
    parser.add_argument("--campaigns", type=int, default=50, help="on each machine")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("| machine | campaigns | trials | false promotions | at most, with 95 % confidence |")
    print("| - | - | - | - | - |")
    for number, weather in enumerate(WEATHERS):
        result = many(weather, options.campaigns, options.seed + 10_000 * number)
        print(
            f"| {result.weather} | {result.campaigns} | {result.trials} | {result.promoted} | "
            f"{100 * upper(result.promoted, result.campaigns):.1f} % |"
        )
        sys.stdout.flush()


def many(weather: Weather, campaigns: int, seed: int) -> Result:
    trials = promoted = 0
    for number in range(campaigns):
        conclusion, count = campaign(weather, seed + number)
        trials += count
        promoted += conclusion.changed
    return Result(weather.name, campaigns, trials, promoted)


def campaign(weather: Weather, seed: int) -> tuple[Conclusion, int]:
    """One campaign from its first baseline to its conclusion, and how many trials it took."""
    spec, judge, strategy = _spec(), PairedJudge(), Staged()
    machine = Machine(spec, weather, np.random.default_rng(seed), {})
    while len(machine.history.trials) < MOST and isinstance(step := strategy.propose(spec, machine.history), Proposal):
        trial = machine.measure(step.candidate, step.purpose)
        machine.note(trial, judge.decide(spec, machine.history, trial))
    return judge.conclude(spec, machine.history), len(machine.history.trials)


def upper(happened: int, of: int, confidence: float = 0.95) -> float:
    """Exact one-sided upper bound of a share (Clopper and Pearson)."""
    return 1.0 if happened >= of else float(beta.ppf(confidence, happened + 1, of - happened))


def _spec() -> CampaignSpec:
    spec = spec_of()
    spaces = tuple(
        SpeculationSpace(method, depths=(1, 2, 3, 4), draft_model="/draft") for method in (Method.DRAFT, Method.EAGLE3)
    )
    budget = replace(spec.budget, trials=60, minutes=600.0, side_by_side=False)
    return replace(spec, search=SearchSpec(speculation=spaces), budget=budget)


if __name__ == "__main__":
    main()
