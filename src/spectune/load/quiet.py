"""Room for a measurement in this process: an event loop, rare garbage collections, enough file descriptors."""

from __future__ import annotations

import gc
import resource
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

_SPARE_DESCRIPTORS = 64
_RARELY = (20_000, 20, 20)


def until_done(work: Coroutine[Any, Any, T]) -> T:
    """Runs to the end in an event loop of its own; Ctrl-C cancels the work, closes connections, and is raised again."""
    results: list[T] = []

    # As the result of the task itself it would be printed, though nobody sees it: asyncio's runner looks up its signal
    # handler among the signal module's own, whose error for "none of these" has the handler, its task and its result.
    async def run() -> None:
        results.append(await work)

    uvloop.run(run())
    return results[0]


@contextmanager
def rare_collections() -> Iterator[None]:
    """Keeps what exists already out of the garbage collector, and lets it look at the rest rarely.

    A full collection goes through every object of the process, which stops the clock of all streams for tens of ms.
    """
    thresholds = gc.get_threshold()
    if thresholds == _RARELY:  # someone around this keeps it quiet already
        yield
        return
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def connections_allowed(wanted: int) -> int:
    """Raises this process's limit of open files as far as is needed and allowed, and returns how many connections fit:
    `wanted`, or fewer where the hard limit is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _SPARE_DESCRIPTORS
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if most > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(1, max(most, soft) - _SPARE_DESCRIPTORS)
