"""The tables of docs/evidence/full-size.md, from the ledger and the timings beside it.

python -m bench.full_size [docs/evidence/full-size]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.full_size import tables, walk
from bench.full_size.evidence import load

PARTS = (
    ("Speed and room", tables.speeds),
    ("One user at lower acceptance", tables.pessimistic),
    ("Forecasts of depths not measured", tables.forecasts),
    ("What the guided search does with it", walk.walk),
    ("Expert kernels of one layer on one GPU", tables.kernels),
    ("Time of a step by kind of work, ms", tables.profile),
    ("Against the bytes that a step must move, one user", tables.roofline),
    ("Other settings", tables.knobs),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs/evidence/full-size"))
    evidence = load(parser.parse_args().folder)
    for title, made in PARTS:
        print(f"## {title}\n")
        print("\n".join(made(evidence)) + "\n")


if __name__ == "__main__":
    main()
