"""Self-checks of an open loop: did requests leave when they were due, and could the server keep the rate."""

from __future__ import annotations

import math
from statistics import median

import numpy as np

from spectune.domain.measurement import Doubt
from spectune.domain.workload import Arrival, LevelKind
from spectune.load import summary
from spectune.load.facts import Facts

_LATE_S = 0.010
_LATE_SHARE = 0.05
_GROWTH = 1.5
_GROWTH_SIGMAS = 4


def late_arrivals(facts: Facts) -> Doubt | None:
    """Late requests come in other gaps than asked for, and their wait in the client is in TTFT."""
    if facts.cell.level.kind is not LevelKind.RATE or not facts.kept:
        return None
    late = [seconds for r in facts.kept if (seconds := r.record.lateness_s) is not None]
    ttfts = [seconds for r in facts.kept if (seconds := r.record.ttft_s) is not None]
    if not late or not ttfts:
        return None
    p99 = float(np.quantile(late, 0.99))
    if p99 <= min(_LATE_S, _LATE_SHARE * median(ttfts)):
        return None
    return Doubt(
        "sent-late",
        f"the client sent requests up to {1000 * p99:.1f} ms late (p99), with a median TTFT of "
        f"{1000 * median(ttfts):.1f} ms",
        "The client lacks CPU, or connecting takes long. Keep a core free for it, or measure from another machine.",
    )


def growing_queue(facts: Facts) -> Doubt | None:
    """Requests pile up: latencies then tell how long was measured, and not how fast the server is."""
    level = facts.cell.level
    if level.kind is not LevelKind.RATE:
        return None
    if facts.overflowed:
        cut = f"; {facts.cut_off} that count were never answered" if facts.cut_off else ""
        return _grows(f"so many requests were in flight that no more were sent{cut}", fatal=bool(facts.cut_off))
    if level.arrival in {Arrival.RAMP, Arrival.TRACE}:  # these may well change
        return None
    records = [r.record for r in facts.everything]
    first, _, last = (summary.mean_in_flight(records, third) for third in summary.thirds(facts.window))
    if last <= max(_GROWTH * first, first + _GROWTH_SIGMAS * math.sqrt(max(first, 1.0))):
        return None
    return _grows(f"{first:.1f} requests were in flight in the first third of the window, {last:.1f} in the last")


def _grows(seen: str, fatal: bool = False) -> Doubt:
    return Doubt(
        "queue-grows",
        f"the server cannot keep the rate: {seen}",
        "Lower the rate. Latencies at a rate beyond the server's depend on how long is measured.",
        fatal=fatal,
    )
