"""A real llama-server that is asked the same prompts again: `python -m bench.faults.contaminated [--seconds 15]`.

SmolLM2-135M with a pool of n-grams (ngram-mod), which lives on from request to request, and the server's own prompt
cache. Rounds take turns on one server, so that a busy machine disturbs both kinds alike: prompts that it has never
seen, and the same few prompts over and over. Prompts are long, as those of code and documents are.
"""

from __future__ import annotations

import argparse
import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

from bench.faults.lab import Lab, Trial, scratch
from bench.faults.real import ONE, POOL, real_bed
from spectune.assemble.engines import KITS
from spectune.domain.measurement import Outcome, RequestRecord
from spectune.domain.questions import Questions
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Message, Prompt
from spectune.load.exchange import Timeouts
from spectune.workload import builtin_source

SAME, TOKENS, BEFORE = 2, 96, 6
"""Prompts that are repeated; tokens of an answer; prompts of the workload that stand before each as its context."""
PROBES = 4
"""Answers are not what this is about."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.faults.contaminated", description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=4, help="of each kind")
    options = parser.parse_args()
    folder = scratch()
    try:
        lab = Lab(folder, timeouts=Timeouts())
        lab.questions = Questions(lab.questions.probes[:PROBES])
        bed, _ = real_bed(lab)
        model = Path(KITS["llama.cpp"].model("builtin", "model", lambda text, share: None))
        service = replace(bed.service, model=str(model), model_id=model.stem)
        cells = (ONE,) * (2 * options.rounds)
        report = lab.run(
            replace(bed, service=service), Trial(POOL, cells=cells, prompts=_turns, seconds=options.seconds)
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rounds = list(report.measured.values())
    print(
        "| prompts | requests | answer, tok/s per user | first token, s | whole answer, s | drafts accepted | cached |"
    )
    print("| - | - | - | - | - | - | - |")
    # The first round of repeated prompts is the one that fills pool and cache.
    honest, repeated = _row("never seen", rounds[0::2]), _row("the same again", rounds[3::2])
    print(f"\nThe same prompts look {repeated / honest:.2f} times as fast.\n")
    print(f"could be promoted: {'yes' if report.promotable else 'no'}")
    for name, text in report.said.items():
        print(f"- `{name}`: {text}")


def _turns(lane: int) -> Iterator[Prompt]:
    """Fresh prompts in the rounds of odd number, the same few in the others."""
    while True:
        yield from _long(lane) if lane % 2 else islice(_long(0), SAME)


def _long(lane: int) -> Iterator[Prompt]:
    """Prompts with others of the workload before them."""
    source = builtin_source(max_tokens=TOKENS).deal(lane, 64)
    for number in count():
        parts = list(islice(source, BEFORE + 1))
        if len(parts) <= BEFORE:
            return
        text = "\n\n".join(message.content for part in parts for message in part.messages)
        yield replace(parts[-1], id=f"long-{lane}-{number}", messages=(Message("user", text),))


def _row(name: str, rounds: Sequence[MeasuredCell]) -> float:
    """Prints one kind of rounds; geometric mean of the answers' whole speed, tokens / latency."""
    records = [r for cell in rounds for r in cell.records if r.outcome is Outcome.OK and r.output_tokens]
    drafted, accepted = (
        sum(getattr(c.measurement.acceptance, of, 0) for c in rounds) for of in ("drafted", "accepted")
    )
    prompt, cached = (sum(getattr(r, of) or 0 for r in records) for of in ("prompt_tokens", "cached_tokens"))
    speeds = [r.speed_tok_s for r in records if r.speed_tok_s]
    whole = [r.output_tokens / r.latency_s for r in records if r.output_tokens and r.latency_s]
    print(
        f"| {name} | {len(records)} | {_mean(speeds):.1f} | {_median(records, 'ttft_s'):.2f} | "
        f"{_median(records, 'latency_s'):.2f} | {accepted} of {drafted} | {100 * cached / max(prompt, 1):.0f} % |"
    )
    return _mean(whole)


def _mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def _median(records: Sequence[RequestRecord], of: str) -> float:
    values = sorted(getattr(record, of) for record in records)
    return float(values[len(values) // 2]) if values else math.nan


if __name__ == "__main__":
    main()
