"""Answers over time: chunks as tokens come, and what happens when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from spectune.sim.sglang.job import Job

DONE = b"data: [DONE]\n\n"
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


async def growth(job: Job, interval: int) -> AsyncIterator[tuple[int, int]]:
    """Ranges of new tokens, each as large as what came since the last was taken; ends with the request.

    With an interval above 1 this version of the engine sends only where the count is one more than a multiple of it.
    """
    sent = 0
    while True:
        await job.wake.wait()
        job.wake.clear()
        total = len(job.pieces)
        if total > sent and (interval <= 1 or total % interval == 1 or job.reason is not None):
            yield sent, total
            sent = total
        if job.reason is not None:
            return


class EventStream:
    """An ASGI response that sends events as they come, and calls `gone` when the client has left."""

    def __init__(self, events: AsyncIterator[bytes], gone: Callable[[], None]) -> None:
        self._events, self._gone = events, gone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        watch = asyncio.create_task(_left(receive, self._gone))
        try:
            async for event in self._events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            watch.cancel()
            self._gone()


async def ended(job: Job, request: Request, abort: Callable[[Job], None]) -> None:
    """Until a request is over; aborts it when its client leaves."""
    watch = asyncio.create_task(_left(request.receive, lambda: abort(job)))
    try:
        while job.reason is None:
            await job.wake.wait()
            job.wake.clear()
    finally:
        watch.cancel()
        abort(job)


async def _left(receive: Callable[[], Awaitable[object]], gone: Callable[[], None]) -> None:
    while True:
        message = await receive()
        if isinstance(message, dict) and message.get("type") == "http.disconnect":
            gone()
            return
