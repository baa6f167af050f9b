"""An open loop: requests leave at their due times, whatever is in flight.

The window opens when half of the requests so far have been answered, or after a third of the time where a server is
too slow for that; a ramp counts from its start. Requests that arrive from then on count, until it is precise enough,
time is up or prompts run out. Those that count are all waited for, and meanwhile arrivals go on without being counted.

A server that cannot keep the rate lets the number in flight grow without end. At a limit no more requests are sent, and
those that count get as long again as the window to be answered.
"""

from __future__ import annotations

import asyncio

from spectune.domain.measurement import Phase
from spectune.domain.workload import Arrival, Level, Prompt
from spectune.load.alarm import Alarm
from spectune.load.arrivals import Due
from spectune.load.body import Sender
from spectune.load.course import Course
from spectune.load.dealer import Dealer

_WARM_UP_SHARE = 1 / 3
_LOOK_FOR_LAST_TURN_S = 0.01


class OpenLoop:
    """One cell's load. The first turn of a session arrives by the schedule, later ones follow the answer before them.

    Attributes:
        cut_off: requests that count and were cancelled, because they had not been answered long after that.
    """

    def __init__(
        self,
        level: Level,
        course: Course,
        due: Due,
        dealer: Dealer,
        sender: Sender,
        most_in_flight: int,
        start_ns: int,
        seconds: float,
    ) -> None:
        """Takes when the schedule starts, and the time of the measurement."""
        self._level = level
        self._course = course
        self._due = due
        self._dealer = dealer
        self._sender = sender
        self._most_in_flight = most_in_flight
        self._start_ns = start_ns
        self._seconds = seconds
        self._sessions: set[asyncio.Task[None]] = set()
        self._about_to_send = 0
        self._failure: BaseException | None = None
        self._full = asyncio.Event()
        self.cut_off = 0

    @property
    def overflowed(self) -> bool:
        """Whether so many requests were in flight that no more were sent."""
        return self._full.is_set()

    async def run(self) -> None:
        """Returns when every counted request is over and the others are cancelled.

        Raises:
            InputError: the prompts have no schedule.
        """
        course = self._course
        if self._level.arrival is Arrival.RAMP:
            course.open()
        with Alarm() as alarm:
            arrivals = asyncio.create_task(self._arrive(alarm))
            settled = asyncio.ensure_future(course.settled.wait())
            tasks = [arrivals, *map(asyncio.create_task, (self._end_warm_up(), self._cut_off()))]
            try:
                async with course.reading():
                    await asyncio.wait((arrivals, settled), return_when=asyncio.FIRST_COMPLETED)
                    if arrivals.done():
                        arrivals.result()
                        await settled
                    course.over.set()
                    for task in tasks:
                        task.cancel()
                    self._sender.cancel()
                    await asyncio.gather(*self._sessions)
                if self._failure:
                    raise self._failure
            finally:
                for left in (*tasks, settled, *self._sessions):
                    left.cancel()
                await asyncio.gather(*tasks, settled, return_exceptions=True)

    async def _arrive(self, alarm: Alarm) -> None:
        """Sends what is due until the prompts run out, or too many requests are in flight."""
        course, sender = self._course, self._sender
        while prompt := self._dealer.take():
            due_ns = self._start_ns + round(self._due(prompt) * 1e9)
            request = sender.encode(prompt, prompt.max_tokens)
            await alarm.wait_until(due_ns)
            if course.in_flight >= self._most_in_flight:
                if not course.stopped:
                    self._full.set()
                course.close(f"the queue grows: {course.in_flight} requests are in flight")
                return
            session = asyncio.create_task(self._session(prompt, request, due_ns))
            self._sessions.add(session)
            session.add_done_callback(self._session_over)
            await asyncio.sleep(0)  # many may be due at once, and answers are arriving
        while self._dealer.waiting or self._about_to_send:
            await asyncio.sleep(_LOOK_FOR_LAST_TURN_S)
        course.close("prompts ran out")

    async def _session(self, prompt: Prompt, request: bytes, due_ns: int) -> None:
        course, sender = self._course, self._sender
        raw = await course.request(prompt, course.phase(), sender.exchange(request), due_ns)
        self._consider_opening()
        while not course.over.is_set() and not course.lost and (turn := self._dealer.follow(prompt)):
            self._about_to_send += 1
            request = sender.encode(turn, turn.max_tokens)
            due_ns = raw.end_ns + round(turn.think_s * 1e9)
            if turn.think_s > 0:
                await course.think(due_ns)
            phase = course.phase()
            self._about_to_send -= 1
            if course.over.is_set() or (phase is Phase.DRAIN and course.settled.is_set()):
                return
            raw = await course.request(turn, phase, sender.exchange(request), due_ns)
            prompt = turn

    def _session_over(self, session: asyncio.Task[None]) -> None:
        self._sessions.discard(session)
        if not session.cancelled() and session.exception():
            self._failure = self._failure or session.exception()
            self._course.close("failed")
            self._course.settled.set()

    def _consider_opening(self) -> None:
        if 2 * self._course.ended >= self._course.begun:
            self._course.open()

    async def _end_warm_up(self) -> None:
        await asyncio.sleep(_WARM_UP_SHARE * self._seconds)
        self._course.open()

    async def _cut_off(self) -> None:
        await self._full.wait()
        await asyncio.sleep(self._seconds)
        self.cut_off = self._course.counted
        self._sender.cancel()
