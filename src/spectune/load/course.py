"""The course of one measurement, whatever its arrivals: which requests count, what came of them, when it is enough.

Answers are read a few at a time, between turns of the event loop: a wave of them at once would hold up the stamps of
everything that arrives meanwhile, and each by itself would find none of its code and data in the caches of the
processor, which a stream of small reads fills with other things: that takes three times as long.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from time import perf_counter_ns

from spectune.domain.measurement import Outcome, Phase
from spectune.domain.workload import Prompt
from spectune.load.exchange import Outcome as HttpOutcome
from spectune.load.exchange import RawExchange
from spectune.load.record import Recorded, Tokenizer, make_record
from spectune.load.window import Listener, Window

LOST = frozenset({HttpOutcome.CONNECT_FAILED, HttpOutcome.RESET})
"""Outcomes after which the server may be gone."""

_GIVE_UP_AFTER = 5
_GATHER_S = 0.1
"""How long answers wait to be read, so that several are there."""
_READ_NS = 2_000_000
"""How long to read them before the event loop has a turn."""
_BACKLOG, _AT_ONCE = 256, 8
"""Unread answers above which so many are read at once, whatever waits: their bytes take room."""
_LOOK_AT_CLOCK_S = 0.1
_COMPRESSED, _THEN_ONE_OF = 512, 8
"""Answers of which each is compressed, and of how many later ones one is: it is a tenth of what reading them takes, and
a share of loops is known well enough then."""


class Course:
    """Attributes:
    recorded: all requests, in the order in which they ended.
    thought: (from, to) of every pause between turns of a session, ns.
    in_flight: requests sent whose end has not been seen; `counted` of them count.
    begun, ended: how many requests have been sent, and are over.
    stopped: why the window closed, in words.
    lost: the server stopped answering.
    settled: the window has closed, and nothing that counts is in flight.
    over: nothing more is to be sent.
    """

    def __init__(self, seconds: float, listener: Listener, tokenizer: Tokenizer | None = None) -> None:
        """Takes the longest window, who hears of each served request that counts, and what counts tokens where the
        server does not."""
        self._seconds = seconds
        self._listener = listener
        self._tokenizer = tokenizer
        self._opened_ns: int | None = None
        self._closed_ns: int | None = None
        self._refused_in_a_row = self._give_up_at = 0
        self._unread: deque[tuple[Prompt, Phase, int, RawExchange]] = deque()
        self._arrived = asyncio.Event()
        self.recorded: list[Recorded] = []
        self.thought: list[tuple[int, int]] = []
        self.in_flight = self.counted = self.begun = self.ended = 0
        self.stopped = ""
        self.lost = False
        self.settled = asyncio.Event()
        self.over = asyncio.Event()

    @property
    def window(self) -> Window:
        now = perf_counter_ns()
        return Window(self._opened_ns or now, self._closed_ns or now)

    def open(self) -> None:
        """Opens the window, if it has not been opened yet."""
        self._opened_ns = self._opened_ns or perf_counter_ns()

    def close(self, why: str) -> None:
        """Closes the window, if it has not been closed yet."""
        if self._closed_ns is None:
            self.open()
            self._closed_ns = perf_counter_ns()
            self.stopped = why
        self._look_whether_settled()

    def phase(self) -> Phase:
        """Where a request falls that is sent now."""
        if self._opened_ns is None:
            return Phase.WARMUP
        if self._closed_ns is None and perf_counter_ns() - self._opened_ns >= self._seconds * 1e9:
            self.close("time is up")
        return Phase.STEADY if self._closed_ns is None else Phase.DRAIN

    async def request(
        self, prompt: Prompt, phase: Phase, exchange: Awaitable[RawExchange], due_ns: int | None = None
    ) -> RawExchange:
        """Sees one request through. Without a due time of its own, it was due when it was sent."""
        counts = phase is Phase.STEADY
        self._count(+counts)
        self.in_flight += 1
        self.begun += 1
        called_ns = perf_counter_ns()
        try:
            raw = await exchange
        finally:
            self._count(-counts)
            self.in_flight -= 1
            self.ended += 1
        self._unread.append((prompt, phase, due_ns or raw.sent_ns or called_ns, raw))
        self._arrived.set()
        if len(self._unread) >= _BACKLOG:
            for _ in range(_AT_ONCE):
                self._read_one()
        self._mind_refusals(raw.outcome)
        self._look_whether_settled()
        return raw

    async def think(self, until_ns: int) -> None:
        """Waits between two turns of a session, but not beyond the end of everything."""
        began_ns = perf_counter_ns()
        # A loop's timer may be early by what it rounds.
        while not self.over.is_set() and (left_ns := until_ns - perf_counter_ns()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.over.wait(), left_ns / 1e9)
        self.thought.append((began_ns, perf_counter_ns()))

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Reads what arrives meanwhile, and at the end whatever is still unread."""
        tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._keep_time())]
        try:
            yield
        finally:
            self.over.set()
            for task in tasks:
                task.cancel()
            while self._unread:
                self._read_one()

    async def _keep_time(self) -> None:
        """Closes the window in time even if nothing is sent for long."""
        while True:
            await asyncio.sleep(_LOOK_AT_CLOCK_S)
            self.phase()

    async def _read(self) -> None:
        while True:
            await self._arrived.wait()
            await asyncio.sleep(_GATHER_S)
            self._arrived.clear()
            while self._unread:
                until_ns = perf_counter_ns() + _READ_NS
                while self._unread and perf_counter_ns() < until_ns:
                    self._read_one()
                await asyncio.sleep(0)

    def _read_one(self) -> None:
        prompt, phase, due_ns, raw = self._unread.popleft()
        read = len(self.recorded)
        compress = read < _COMPRESSED or read % _THEN_ONE_OF == 0
        # Texts are not kept: they would add up.
        done = make_record(prompt, phase, due_ns, raw, self._tokenizer, keep_text=False, compress=compress)
        self.recorded.append(done)
        if phase is Phase.STEADY and done.record.outcome is Outcome.OK:
            self._listener.add(done.record)
            self._consider_closing()

    def _consider_closing(self) -> None:
        """Closes the window when the speed is known well enough."""
        if self._closed_ns is None and self._listener.is_enough():
            self.close("precise enough")

    def _count(self, change: int) -> None:
        self.counted += change

    def _look_whether_settled(self) -> None:
        if self.lost or (self._closed_ns is not None and not self.counted):
            self.settled.set()

    def _mind_refusals(self, outcome: HttpOutcome) -> None:
        """Several broken connections in a row mean that the server is gone; hammering it would tell nothing more."""
        if outcome not in LOST:
            self._refused_in_a_row = 0
            return
        if not self._refused_in_a_row:  # what was in flight may break as well, and the server be back at once
            self._give_up_at = max(_GIVE_UP_AFTER, self.in_flight + 2)
        self._refused_in_a_row += 1
        if self._refused_in_a_row >= self._give_up_at:
            self.lost = True
            self.close("the server is gone")
