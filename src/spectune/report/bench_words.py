"""Numbers of a load test as people read them, alike in tables, lines and Markdown."""

from __future__ import annotations

import math

from spectune.domain.estimate import Estimate
from spectune.domain.measurement import Measurement, Outcome
from spectune.domain.metrics import MetricName
from spectune.domain.workload import Cell, Sampling
from spectune.report import words


def speed(estimate: Estimate | None) -> str:
    """Value and half-width: "38.2 ±2 %"; "38.2 ±?" where the spread is unknown."""
    if estimate is None:
        return words.NOTHING
    width = estimate.half_width
    return words.number(estimate.value) + (f" ±{100 * width:.0f}\u00a0%" if width < 10 else " ±?")


def milliseconds(measurement: Measurement, *names: MetricName) -> str:
    """Times in milliseconds, separated by commas."""
    found = [measurement.metrics.get(name) for name in names]
    return ", ".join(words.NOTHING if e is None else words.number(1000 * e.value) for e in found)


def accept_length(measurement: Measurement) -> str:
    """Tokens per verify step: "2.31"."""
    length = measurement.acceptance.length if measurement.acceptance else None
    return words.NOTHING if length is None or not math.isfinite(length) else f"{length:.2f}"


def requests(measurement: Measurement) -> str:
    """How many were served, and how many failed: "40", "38, 2 failed". Cancelled ones are spectune's own doing."""
    failed = failures(measurement)
    served = str(measurement.requests.get(Outcome.OK, 0))
    return f"{served}, {failed} failed" if failed else served


def failures(measurement: Measurement) -> int:
    """Requests that were not served, those that spectune cancelled itself left out."""
    return sum(n for outcome, n in measurement.requests.items() if outcome not in {Outcome.OK, Outcome.CANCELLED})


def sampling(cell: Cell) -> str:
    """Short: "T own" (the model's own sampling), "T 0.7, fixed length"."""
    return temperature(cell.sampling) + (", fixed length" if cell.sampling.ignore_eos else "")


def temperature(sampling: Sampling) -> str:
    """Short: "T own" (the model's own sampling), "T 0.7"."""
    return "T own" if sampling.temperature is None else f"T {sampling.temperature:g}"


def label(cell: Cell) -> str:
    """Level and sampling: "4 users, temperature 0.7, fixed length"."""
    return cell.label + (", fixed length" if cell.sampling.ignore_eos else "")


def line(measurement: Measurement) -> str:
    """A cell in one line, for logs."""
    metrics = measurement.metrics
    parts = [
        f"{speed(metrics.get(MetricName.PER_USER_SPEED))} tok/s per user",
        f"{speed(metrics.get(MetricName.AGGREGATE_SPEED))} tok/s in all",
        f"TTFT {milliseconds(measurement, MetricName.TTFT_P50)} ms",
        f"{requests(measurement)} requests" if not failures(measurement) else f"requests: {requests(measurement)}",
    ]
    if measurement.acceptance:
        parts.append(f"{accept_length(measurement)} tokens a step")
    return f"{label(measurement.cell)}: {', '.join(parts)}"
