"""The load generator watches itself: how late its stamps are, and its CPU time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from spectune.load.exchange import Pool

_SAMPLE_S = 0.05


@dataclass(frozen=True, slots=True)
class Watched:
    """Attributes:
    lag_s: mean and largest lateness of what stamps arrivals, seconds: the event loop, or a thread of its own.
    cpu_share: of one core.
    """

    lag_s: tuple[float, float]
    cpu_share: float


async def watched(work: Coroutine[Any, Any, None], pool: Pool) -> Watched:
    """Runs the load that goes over this pool to its end."""
    lags: list[float] = []
    sampler = asyncio.create_task(_sample(lags))
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        await work
    finally:
        sampler.cancel()
    share = (time.process_time() - cpu) / max(time.perf_counter() - wall, 1e-9)
    return Watched(pool.lag_s or (sum(lags) / len(lags) if lags else 0.0, max(lags, default=0.0)), share)


async def _sample(lags: list[float]) -> None:
    while True:
        due = time.perf_counter() + _SAMPLE_S
        await asyncio.sleep(_SAMPLE_S)
        lags.append(max(0.0, time.perf_counter() - due))
