"""Waking up on time: event loops round their timers to a millisecond, which is much where TTFT is a few."""

from __future__ import annotations

import asyncio
import ctypes
import os
from time import CLOCK_MONOTONIC, perf_counter_ns
from typing import Self

_TIMER_ABSTIME = 1
_SECOND = 1_000_000_000


class _Spec(ctypes.Structure):
    """struct itimerspec: interval, then time, each in seconds and nanoseconds."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("due_s", ctypes.c_long),
        ("due_ns", ctypes.c_long),
    )


class Alarm:
    """Waits for moments of `perf_counter_ns`, by a timer of the kernel (timerfd) where there is one.

    For one waiting task at a time; a context manager.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        try:
            self._timer = int(self._libc.timerfd_create(CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
        except AttributeError:  # a C library without it
            self._timer = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer >= 0:
            os.close(self._timer)
            self._timer = -1

    async def wait_until(self, due_ns: int) -> None:
        """Returns at `due_ns` or as soon as possible after it, at once where it is past."""
        while (left := due_ns - perf_counter_ns()) > 0:
            if not await self._ring(due_ns):
                await asyncio.sleep(left / 1e9)

    async def _ring(self, due_ns: int) -> bool:
        """Whether the timer was set and has rung."""
        spec = _Spec(0, 0, due_ns // _SECOND, due_ns % _SECOND)
        if self._timer < 0 or self._libc.timerfd_settime(self._timer, _TIMER_ABSTIME, ctypes.byref(spec), None):
            return False
        loop = asyncio.get_running_loop()
        rung = asyncio.Event()
        loop.add_reader(self._timer, rung.set)
        try:
            await rung.wait()
        finally:
            loop.remove_reader(self._timer)
        return True
