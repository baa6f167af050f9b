"""A real llama-server that is asked the same prompts again: `python -m bench.faults.contaminated [--seconds 12]`.

SmolLM2-135M with a pool of n-grams (ngram-mod), which lives on from request to request. Three measurements on one
server, all with the same six prompts, over and over.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from bench.faults.lab import Lab, Trial, scratch
from bench.faults.real import ONE, POOL, real_bed
from spectune.assemble.engines import KITS
from spectune.domain.metrics import MetricName
from spectune.domain.workload import Prompt
from spectune.workload import builtin_source


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.faults.contaminated", description=__doc__)
    parser.add_argument("--seconds", type=float, default=12.0, help="of each measurement")
    options = parser.parse_args()
    folder = scratch()
    try:
        lab = Lab(folder)
        bed, _ = real_bed(lab)
        model = Path(KITS["llama.cpp"].model("builtin", "model", lambda text, share: None))
        service = replace(bed.service, model=str(model), model_id=model.stem)
        trial = Trial(POOL, cells=(ONE, ONE, ONE), prompts=_same, seconds=options.seconds)
        report = lab.run(replace(bed, service=service), trial)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("| round | tok/s per user | drafted | accepted |\n| - | - | - | - |")
    for number, cell in enumerate(report.measured.values(), start=1):
        speed = cell.measurement.metrics[MetricName.PER_USER_SPEED]
        acceptance = cell.measurement.acceptance
        drafted, accepted = (acceptance.drafted, acceptance.accepted) if acceptance else (0, 0)
        print(f"| {number} | {speed.value:.1f} ({speed.low:.1f} to {speed.high:.1f}) | {drafted} | {accepted} |")
    print(f"\ncould be promoted: {'yes' if report.promotable else 'no'}")
    for name, text in report.said.items():
        print(f"- `{name}`: {text}")


def _same(lane: int) -> Iterator[Prompt]:
    """Six prompts, over and over, in every round."""
    few = list(islice(builtin_source(max_tokens=160).deal(1, 8), 6))
    while True:
        yield from few


if __name__ == "__main__":
    main()
