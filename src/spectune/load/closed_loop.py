"""A closed loop: exactly N requests in flight, with a steady window that favours nobody.

Users first send one request each that does not count, cut to different lengths so that they fall out of step. The
window opens when half of those are over. Every request sent from then on counts, until it is precise enough or time is
up. Those that count are all waited for, however long they take, and meanwhile uncounted ones keep the load up; these
are cancelled once the last counted one is over.

Answers are read one at a time, between turns of the event loop: reading a wave of them at once would hold up the stamps
of everything that arrives meanwhile.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from time import perf_counter_ns

from spectune.domain.measurement import Outcome, Phase
from spectune.domain.ports import Limits
from spectune.domain.workload import Prompt
from spectune.load import summary, wire
from spectune.load.record import Recorded, make_record
from spectune.load.wire import RawExchange

Send = Callable[[Prompt, int], Awaitable[RawExchange]]
"""Sends a prompt with a cap on its answer, and returns what came back."""

_LOST = frozenset({wire.Outcome.CONNECT_FAILED, wire.Outcome.RESET})
_GIVE_UP_AFTER = 5
_PAUSE_AFTER_REFUSAL_S = 0.1
_BACKLOG = 64
_CHECK_GROWTH = 1.05


class ClosedLoop:
    """One cell's load.

    Args:
        users: N.
        limits: when to stop.
        send: how to send.
        cancel: ends what is in flight.
        progress: hears of each finished request that counts.

    Attributes:
        recorded: all requests, in the order in which they ended.
        window: when requests counted.
        stopped: why it ended, in words.
        lost: the server stopped answering.
    """

    def __init__(
        self,
        users: int,
        limits: Limits,
        prompts: Iterator[Prompt],
        send: Send,
        cancel: Callable[[], object],
        progress: Callable[[list[Recorded]], None],
    ) -> None:
        self._users = users
        self._limits = limits
        self._prompts = prompts
        self._send = send
        self._cancel = cancel
        self._progress = progress
        self._opened_ns: int | None = None
        self._closed_ns: int | None = None
        self._ramps_over = 0
        self._counted_in_flight = 0
        self._nothing_counts = asyncio.Event()
        self._refused_in_a_row = 0
        self._over = False
        self._unread: deque[tuple[Prompt, Phase, int, RawExchange]] = deque()
        self._arrived = asyncio.Event()
        self._kept: list[Recorded] = []
        self._next_check = limits.min_requests
        self.recorded: list[Recorded] = []
        self.stopped = ""
        self.lost = False

    @property
    def window(self) -> summary.Window:
        now = perf_counter_ns()
        return summary.Window(self._opened_ns or now, self._closed_ns or now)

    async def run(self) -> None:
        """Returns when every counted request is over and the others are cancelled."""
        if self._users == 1:
            self._open()
        reader = asyncio.create_task(self._read())
        users = [asyncio.create_task(self._user(index)) for index in range(self._users)]
        try:
            await self._finished(users)
            self._over = True
            self._cancel()
            await asyncio.gather(*users)
        finally:
            for task in (reader, *users):
                task.cancel()
        while self._unread:
            self._read_one()

    async def _finished(self, users: list[asyncio.Task[None]]) -> None:
        """Waits until the window has closed and nothing that counts is in flight, or all users have gone."""
        over = asyncio.create_task(self._nothing_counts.wait())
        pending = set(users)
        try:
            while pending and not over.done():
                done, _ = await asyncio.wait({*pending, over}, return_when=asyncio.FIRST_COMPLETED)
                pending -= done
                for user in done - {over}:
                    user.result()
        finally:
            over.cancel()

    async def _user(self, index: int) -> None:
        """One user: a short request to fall out of step, then one after the other until there are no prompts."""
        if self._users > 1:
            prompt = self._next()
            if prompt is None:
                return
            share = (index + 1) / self._users
            await self._one(prompt, Phase.WARMUP, max(2, round(prompt.max_tokens * share)))
            self._ramps_over += 1
            if 2 * self._ramps_over >= self._users:
                self._open()
        while not self._over and not self.lost:
            phase = self._phase()
            if phase is Phase.DRAIN and not self._counted_in_flight:
                self._nothing_counts.set()
                return
            prompt = self._next()
            if prompt is None:
                return
            await self._one(prompt, phase, prompt.max_tokens)

    async def _one(self, prompt: Prompt, phase: Phase, max_tokens: int) -> None:
        due = perf_counter_ns()
        counts = phase is Phase.STEADY
        self._counted_in_flight += counts
        try:
            exchange = await self._send(prompt, max_tokens)
        finally:
            self._counted_in_flight -= counts
        self._unread.append((prompt, phase, due, exchange))
        self._arrived.set()
        while len(self._unread) > _BACKLOG:
            self._read_one()
        await self._mind_refusals(exchange.outcome)
        if self.lost or (self._closed_ns and not self._counted_in_flight):
            self._nothing_counts.set()

    async def _read(self) -> None:
        """Reads what has arrived, one answer a turn of the event loop."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._unread:
                self._read_one()
                await asyncio.sleep(0)

    def _read_one(self) -> None:
        prompt, phase, due, exchange = self._unread.popleft()
        done = make_record(prompt, phase, due, exchange)
        self.recorded.append(done)
        if phase is Phase.STEADY and done.record.outcome is Outcome.OK:
            self._kept.append(done)
            self._consider_closing()

    def _open(self) -> None:
        self._opened_ns = self._opened_ns or perf_counter_ns()

    def _phase(self) -> Phase:
        if self._opened_ns is None:
            return Phase.WARMUP
        if self._closed_ns is None and perf_counter_ns() - self._opened_ns >= self._limits.seconds * 1e9:
            self._close("time is up")
        return Phase.STEADY if self._closed_ns is None else Phase.DRAIN

    def _consider_closing(self) -> None:
        """Closes the window when the speed is known well enough; looked at ever more rarely as requests grow many."""
        self._progress(self._kept)
        if self._closed_ns is not None or len(self._kept) < self._next_check:
            return
        self._next_check = math.ceil(len(self._kept) * _CHECK_GROWTH)
        speed = summary.per_user_speed(r.record for r in sorted(self._kept, key=lambda r: r.record.sent_ns))
        if speed is not None and speed.half_width <= self._limits.precision:
            self._close("precise enough")

    def _close(self, why: str) -> None:
        if self._closed_ns is None:
            self._closed_ns = perf_counter_ns()
            self.stopped = why

    def _next(self) -> Prompt | None:
        prompt = next(self._prompts, None)
        if prompt is None:
            self._open()
            self._close("prompts ran out")
        return prompt

    async def _mind_refusals(self, outcome: wire.Outcome) -> None:
        """Several broken connections in a row mean that the server is gone; hammering it would tell nothing more."""
        if outcome not in _LOST:
            self._refused_in_a_row = 0
            return
        self._refused_in_a_row += 1
        if self._refused_in_a_row >= max(_GIVE_UP_AFTER, self._users + 1):
            self.lost = True
            self._close("the server is gone")
        await asyncio.sleep(_PAUSE_AFTER_REFUSAL_S)
