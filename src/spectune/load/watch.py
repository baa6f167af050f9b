"""The load generator watches itself: lateness of its event loop, and its CPU time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

_SAMPLE_S = 0.05


@dataclass(frozen=True, slots=True)
class Watched:
    """Attributes:
    lag_s: mean and largest lateness of the event loop, seconds.
    cpu_share: of one core.
    """

    lag_s: tuple[float, float]
    cpu_share: float


async def watched(work: Coroutine[Any, Any, None]) -> Watched:
    """Runs the load to its end."""
    lags: list[float] = []
    sampler = asyncio.create_task(_sample(lags))
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        await work
    finally:
        sampler.cancel()
    share = (time.process_time() - cpu) / max(time.perf_counter() - wall, 1e-9)
    return Watched((sum(lags) / len(lags) if lags else 0.0, max(lags, default=0.0)), share)


async def _sample(lags: list[float]) -> None:
    while True:
        due = time.perf_counter() + _SAMPLE_S
        await asyncio.sleep(_SAMPLE_S)
        lags.append(max(0.0, time.perf_counter() - due))
