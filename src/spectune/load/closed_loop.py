"""A closed loop: exactly N users, each with one request in flight or thinking, with a window that favours nobody.

Users first send one request each that does not count, cut to different lengths so that they fall out of step. The
window opens when half of those are over. Every request sent from then on counts, until it is precise enough or time is
up. Those that count are all waited for, however long they take, and meanwhile uncounted ones keep the load up; these
are cancelled once the last counted one is over.
"""

from __future__ import annotations

import asyncio

from spectune.domain.measurement import Phase
from spectune.domain.workload import Prompt
from spectune.load.body import Sender
from spectune.load.course import LOST, Course
from spectune.load.dealer import Dealer

_PAUSE_AFTER_REFUSAL_S = 0.1


class ClosedLoop:
    """One cell's load. A user stays with a session up to its end: each turn waits for the answer before it."""

    def __init__(self, users: int, course: Course, dealer: Dealer, sender: Sender) -> None:
        self._users = users
        self._course = course
        self._dealer = dealer
        self._sender = sender
        self._ramps_over = 0

    async def run(self) -> None:
        """Returns when every counted request is over and the others are cancelled."""
        course = self._course
        if self._users == 1:
            course.open()
        users = [asyncio.create_task(self._user(index)) for index in range(self._users)]
        try:
            async with course.reading():
                await self._finished(users)
                course.over.set()
                self._sender.cancel()
                await asyncio.gather(*users)
        finally:
            for user in users:
                user.cancel()

    async def _finished(self, users: list[asyncio.Task[None]]) -> None:
        """Waits until the window has closed and nothing that counts is in flight, or all users have gone."""
        settled = asyncio.create_task(self._course.settled.wait())
        pending = set(users)
        try:
            while pending and not settled.done():
                done, _ = await asyncio.wait({*pending, settled}, return_when=asyncio.FIRST_COMPLETED)
                pending -= done
                for user in done - {settled}:
                    user.result()
        finally:
            settled.cancel()

    async def _user(self, index: int) -> None:
        """One user: a short request to fall out of step, then one after the other until there are no prompts."""
        course = self._course
        prompt = self._take()
        if self._users > 1 and prompt:
            share = (index + 1) / self._users
            answered_ns = await self._one(prompt, Phase.WARMUP, max(2, round(prompt.max_tokens * share)))
            self._ramps_over += 1
            if 2 * self._ramps_over >= self._users:
                course.open()
            prompt = await self._after(prompt, answered_ns)
        while prompt and not course.over.is_set() and not course.lost:
            phase = course.phase()
            if phase is Phase.DRAIN and course.settled.is_set():
                return
            answered_ns = await self._one(prompt, phase, prompt.max_tokens)
            prompt = await self._after(prompt, answered_ns)

    async def _one(self, prompt: Prompt, phase: Phase, max_tokens: int) -> int:
        """Sends a prompt and returns when its answer was over, ns."""
        request = self._sender.encode(prompt, max_tokens)
        raw = await self._course.request(prompt, phase, self._sender.exchange(request))
        if raw.outcome in LOST:
            await asyncio.sleep(_PAUSE_AFTER_REFUSAL_S)
        return raw.end_ns

    async def _after(self, prompt: Prompt, answered_ns: int) -> Prompt | None:
        """What the user sends next: the next turn of the session once it has been thought about, or something new.

        Nothing once the loop is over: a prompt must not be taken to be thrown away.
        """
        if self._course.over.is_set() or self._course.lost:
            return None
        turn = self._dealer.follow(prompt)
        if turn is None:
            return self._take()
        if turn.think_s > 0:
            await self._course.think(answered_ns + round(turn.think_s * 1e9))
        return turn

    def _take(self) -> Prompt | None:
        prompt = self._dealer.take()
        if prompt is None:
            self._course.close("prompts ran out")
        return prompt
