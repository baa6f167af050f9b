from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from time import perf_counter_ns
from typing import Any

import pytest
import uvloop

from spectune.load.alarm import Alarm


async def lateness(alarm: Alarm, count: int) -> list[int]:
    late = []
    for _ in range(count):
        due = perf_counter_ns() + 2_300_000
        await alarm.wait_until(due)
        late.append(perf_counter_ns() - due)
    return late


@pytest.mark.parametrize("run", [uvloop.run, asyncio.run])
def test_it_wakes_up_on_time_and_never_early(run: Callable[[Coroutine[Any, Any, list[int]]], list[int]]) -> None:
    with Alarm() as alarm:
        late = sorted(run(lateness(alarm, 50)))
    assert late[0] >= 0
    assert late[10] < 700_000  # a loop's own timer rounds 2.3 ms to 3


def test_what_is_past_is_not_waited_for() -> None:
    with Alarm() as alarm:
        began = perf_counter_ns()
        uvloop.run(alarm.wait_until(began - 1))
        assert perf_counter_ns() - began < 500_000_000


def test_without_a_timer_of_the_kernel_the_loop_wakes_it_up() -> None:
    alarm = Alarm()
    with alarm:
        pass  # closes the timer
    late = uvloop.run(lateness(alarm, 5))
    assert 0 <= min(late) < 100_000_000


def test_waiting_can_be_cancelled_and_begun_again() -> None:
    async def run(alarm: Alarm) -> int:
        waiting = asyncio.create_task(alarm.wait_until(perf_counter_ns() + 60_000_000_000))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return (await lateness(alarm, 1))[0]

    with Alarm() as alarm:
        assert uvloop.run(run(alarm)) >= 0
