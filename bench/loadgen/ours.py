"""One run of spectune's load generator, as a process of its own; prints what it reports as one JSON object.

python -m bench.loadgen.ours URL --users 64 --seconds 5
"""

from __future__ import annotations

import argparse
import json
import os
import resource
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

from bench.loadgen.mock import Spread
from spectune.assemble.clock import SystemClock
from spectune.domain.measurement import Outcome, Phase, RequestRecord
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Limits, Target
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Cell, Level, Message, Prompt, Sampling
from spectune.load.body import Api
from spectune.load.exchange import Timeouts
from spectune.load.generator import HttpLoad
from spectune.load.options import Options

_WORDS = " ".join(["copper", "window", "river", "paper"] * 16)


def words(text: str) -> int:
    """Tokens of a text of the mock server."""
    return len(text.split())


def prompts(tokens: int, begin: int = 0) -> Iterator[Prompt]:
    """Prompts of 64 words, none like another."""
    return (Prompt(f"p{n}", "story", (Message("user", f"{n} {_WORDS}"),), tokens) for n in count(begin))


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    options = Options(
        Timeouts(idle_s=arguments.idle_s),
        Api(arguments.api),
        tokenizer=words if arguments.tokenizer else None,
        processes=arguments.processes,
        compiled=arguments.compiled,
    )
    load = HttpLoad(SystemClock(), lambda: os.getloadavg()[0], os.cpu_count() or 1, options=options)
    target = Target(arguments.url, "mock-model", lambda: None, {})
    cell = Cell(Level(arguments.users), Sampling(temperature=0.0))
    limits = Limits(arguments.seconds, 0.0)
    given = prompts(arguments.tokens)
    limited = islice(given, arguments.requests) if arguments.requests else given
    if not arguments.waves:
        return reported(load.measure(target, cell, limited, limits, lambda text: None))
    waves: list[RequestRecord] = []
    for _ in range(arguments.waves):
        waves += load.measure(
            target, cell, islice(given, arguments.users), Limits(60.0, 0.0), lambda text: None
        ).records
    ttfts = [1000 * r.ttft_s for r in waves if r.ttft_s is not None]
    return {"completed": len(ttfts), "failed": len(waves) - len(ttfts), "ttft": vars_of(Spread.of(ttfts))}


def vars_of(spread: Spread) -> dict[str, float | None]:
    return {"mean": spread.mean, "p50": spread.p50, "p99": spread.p99}


def reported(cell: MeasuredCell) -> dict[str, Any]:
    """What a user is told: metrics of the steady window; counts of all requests."""
    measurement, records = cell.measurement, cell.records

    def value(name: MetricName, scale: float = 1000.0) -> float | None:
        estimate = measurement.metrics.get(name)
        return None if estimate is None else scale * estimate.value

    served = [r for r in records if r.outcome is Outcome.OK]
    steady = [r.sent_ns for r in served if r.phase is Phase.STEADY]
    known = [r.output_tokens for r in served if r.output_tokens is not None]
    return {
        "completed": len(served),
        "failed": sum(r.outcome not in {Outcome.OK, Outcome.CANCELLED} for r in records),
        "outcomes": dict(Counter(r.outcome.value for r in records)),
        "tokens": sum(known) if len(known) == len(served) else None,
        "ttft": {
            "mean": value(MetricName.TTFT), "p50": value(MetricName.TTFT_P50), "p99": value(MetricName.TTFT_P99)
        },
        "tpot": {
            "mean": value(MetricName.TPOT), "p50": value(MetricName.TPOT_P50), "p99": value(MetricName.TPOT_P99)
        },
        "latency": {"mean": value(MetricName.LATENCY)},
        "chunk_gap": value(MetricName.CHUNK_GAP),
        "tok_s": value(MetricName.AGGREGATE_SPEED, 1.0),
        "in_flight": measurement.in_flight,
        "steady_ns": [min(steady), max(steady)] if steady else None,
        "stopped": measurement.stopped,
        "doubts": {doubt.name: doubt.message for doubt in measurement.doubts},
    }  # fmt: skip


def _cpu_s() -> float:
    """Of this process and those that it started and that are over, seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--users", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--requests", type=int, default=0, help="exactly so many; 0 is as many as fit into the time")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--api", choices=[api.value for api in Api], default=Api.COMPLETIONS.value)
    parser.add_argument("--idle-s", type=float, default=60.0)
    parser.add_argument("--tokenizer", action="store_true", help="count tokens where the server does not")
    parser.add_argument("--waves", type=int, default=0, help="all users at the same moment, so often")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--no-compiled", dest="compiled", action="store_false", help="as where there is no C compiler")
    arguments = parser.parse_args()
    begun = _cpu_s()
    result = measure(arguments)
    result["cpu_s"] = _cpu_s() - begun
    result["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result))


if __name__ == "__main__":
    main()
