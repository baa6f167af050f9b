"""Load tests with chosen speeds, as saved runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from spectune.domain.bench_run import BenchRun
from spectune.domain.candidate import Method
from spectune.domain.deployment import Hardware
from spectune.domain.estimate import Estimate
from spectune.domain.measurement import (
    Acceptance,
    Doubt,
    Measurement,
    Outcome,
    Phase,
    RequestRecord,
    TokenSource,
)
from spectune.domain.metrics import MetricName
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Arrival, Cell, Level, LevelKind, Sampling, WorkloadInfo

CLIENT = Hardware("desk", "a processor", 8, 2**34)
WORKLOAD = WorkloadInfo("builtin", "0" * 64, 100, {"chat": 50, "code_edit": 50})
TOKENS = 101
BUSY = Doubt("busy-host", "load average 9 on 2 cores", "Stop other programs.")

Speed = Callable[[int], float]
"""Number of the prompt -> tok/s."""


def record(number: int, speed: float, ttft_s: float = 0.05, tokens: int = TOKENS) -> RequestRecord:
    sent = (number + 1) * 1_000_000_000  # 0 is a request that was never sent
    first = sent + round(ttft_s * 1e9)
    last = first + round((tokens - 1) / speed * 1e9)
    domain = ("chat", "code_edit")[number % 2]
    return RequestRecord(
        f"{domain}-{number}", domain, Outcome.OK, Phase.STEADY, sent, sent, first, last, last, tokens,
        TokenSource.USAGE, prompt_tokens=20, finish_reason="stop",
    )  # fmt: skip


def cell(
    speed: float | Speed = 50.0,
    level: Level | None = None,
    sampling: Sampling | None = None,
    half: float = 0.02,
    prompts: int = 20,
    accepted: int | None = 1000,
    goodput: float | None = None,
    doubts: Sequence[Doubt] = (),
) -> MeasuredCell:
    """A cell whose requests have the speeds given, and whose estimates are theirs with the half-width given."""
    level = level or Level(1)
    of = speed if callable(speed) else lambda number: speed
    records = tuple(record(number, of(number)) for number in range(prompts))
    mean = math.exp(sum(math.log(of(number)) for number in range(prompts)) / prompts) if prompts else 50.0
    metrics = {
        MetricName.PER_USER_SPEED: around(mean, half),
        MetricName.AGGREGATE_SPEED: around(mean * level.value, half),
        MetricName.REQUEST_RATE: around(mean / 100, half),
        MetricName.TTFT: around(0.05, half),
        MetricName.TTFT_P50: around(0.05, half),
        MetricName.TTFT_P99: Estimate(0.08, 0.06, math.inf, prompts),
        MetricName.TPOT: around(1 / mean, half),
        MetricName.TPOT_P50: around(1 / mean, half),
        MetricName.TPOT_P99: around(1.2 / mean, half),
        MetricName.LATENCY: around(100 / mean, half),
    }
    if goodput is not None:
        metrics[MetricName.GOODPUT] = around(goodput, half)
    by_domain = {domain: {MetricName.PER_USER_SPEED: around(mean, half)} for domain in ("chat", "code_edit")}
    measurement = Measurement(
        Cell(level, sampling or Sampling()), 1_800_000_000.0, 20.0, metrics, by_domain,
        {Outcome.OK: prompts, Outcome.CANCELLED: 1}, level.value,
        acceptance=Acceptance(1000, 3000, accepted, (0.7, 0.3)) if accepted is not None else None,
        stopped="time is up", doubts=tuple(doubts),
    )  # fmt: skip
    return MeasuredCell(measurement, records)


def around(value: float, half: float) -> Estimate:
    return Estimate(value, value * (1 - half), value * (1 + half), 20)


def run(*cells: MeasuredCell, keep_records: bool = False, **changes: object) -> BenchRun:
    made = BenchRun(
        spectune="0.1", started_unix=1_800_000_000.0, url="http://127.0.0.1:8080", model="m", engine="llama.cpp",
        engine_version="b1", method=Method.NGRAM, depth=4, client=CLIENT, workload=WORKLOAD, api="chat", seconds=20.0,
        precision=0.02,
    )  # fmt: skip
    for one in cells or (cell(), cell(30.0, Level(4), goodput=1.5)):
        made = made.adding(one, keep_records)
    return replace(made, **changes)  # type: ignore[arg-type]


def rate(value: float, arrival: Arrival = Arrival.POISSON, burstiness: float = 1.0) -> Level:
    return Level(value, LevelKind.RATE, arrival, burstiness)
