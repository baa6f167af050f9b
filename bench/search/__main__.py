"""How many launches each strategy needs, on known surfaces with noise.

    python -m bench.search [--seeds 2] [--surfaces 24] [--noise 0.01 0.03 0.05] [--strategies guided staged]
                           [--replay DIRECTORY] [--each] [--workers 2] [--out FILE] [--minutes 30]

Launches are counted after the two baselines; measuring the incumbent again counts. Confirmation is left out, since it
is the same for all. Prints Markdown; intervals are 95 % by bootstrap over campaigns.

With --out, outcomes are kept in a file as they come, and the same command goes on where it ended, was stopped by
--minutes or was interrupted; --minutes 0 only prints what is there. The GP sampler needs PyTorch (the extra `gp`).
Where another environment has it already, a .pth file that names that one's site-packages, in an environment of one's
own, saves installing it twice.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from itertools import product
from pathlib import Path

from bench.search import tables
from bench.search.outcomes import Key, OutcomeFile, fingerprint, grouped
from bench.search.series import STRATEGIES, blocks, finished, surfaces
from spectune.domain.errors import InputError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2, help="campaigns for each surface, noise and strategy")
    parser.add_argument("--surfaces", type=int, default=24, help="random surfaces")
    parser.add_argument("--noise", type=float, nargs="+", default=(0.01, 0.03, 0.05), help="sd of a trial's log speed")
    parser.add_argument("--strategies", nargs="+", choices=sorted(STRATEGIES), help="all that are installed")
    parser.add_argument("--replay", type=Path, help="folder with autospec.json and llamacpp-draft.json")
    parser.add_argument("--each", action="store_true", help="a table of every surface too")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="file that keeps the outcomes")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin nothing more after so long")
    options = parser.parse_args()
    names = [surface.name for surface in surfaces(options.surfaces, options.replay)]
    strategies = options.strategies or available()
    wanted = [
        Key(strategy, noise, surface, seed)
        for noise, strategy, surface in product(options.noise, strategies, names)
        for seed in range(options.seeds)
    ]
    file = OutcomeFile(options.out, fingerprint()) if options.out else None
    try:
        outcomes = file.load() if file else {}
    except InputError as error:
        sys.exit(f"{error.message}\n{error.advice}")
    started, known = time.monotonic(), len(outcomes)
    todo = [key for key in wanted if key not in outcomes]
    for done in finished(blocks(todo, options.surfaces, options.replay), options.workers, 60 * options.minutes):
        outcomes |= done
        if file:
            file.append(done)
    found = grouped(outcomes, wanted)
    print("\n".join(tables.summary(found)))
    if options.each:
        print("\n" + "\n".join(tables.each(found)))
    made, left = len(outcomes) - known, sum(key not in outcomes for key in wanted)
    print(f"\n{made} campaigns on {len(names)} surfaces in {time.monotonic() - started:.0f} s; {left} are left to make")


def available() -> list[str]:
    """Names of the strategies whose libraries are installed."""
    found = []
    for name, make in STRATEGIES.items():
        try:
            make(0)
        except InputError as error:
            sys.stderr.write(f"left out: {error}\n")
        else:
            found.append(name)
    return found


if __name__ == "__main__":
    main()
