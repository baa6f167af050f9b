"""A simple streaming client over plain sockets, cheap enough not to disturb what it measures."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Seen:
    """What one stream showed: (time, tokens so far) for each chunk that told usage."""

    points: list[tuple[float, int]] = field(default_factory=list)

    @property
    def speed(self) -> float:
        (first, few), (last, all_) = self.points[0], self.points[-1]
        return (all_ - few) / (last - first)

    def at(self, when: float) -> int:
        """Tokens that had come by then."""
        return max((tokens for moment, tokens in self.points if moment <= when), default=0)


async def stream(port: int, body: dict[str, object]) -> Seen:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    payload = json.dumps(
        {**body, "stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    ).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(payload)}\r\n"
    writer.write(head.encode() + b"Connection: close\r\n\r\n" + payload)
    seen = Seen()
    mark = b'"completion_tokens":'
    while line := await reader.readline():
        place = line.find(mark)
        if place > 0:
            tokens = int(line[place + len(mark) :].split(b",", 1)[0])
            if not seen.points or tokens > seen.points[-1][1]:
                seen.points.append((time.monotonic(), tokens))
    writer.close()
    return seen


@dataclass(frozen=True, slots=True)
class Level:
    per_user: float
    aggregate: float


async def closed_loop(port: int, users: int, seconds: float, settle: float, max_tokens: int) -> Level:
    """Users who always have one request under way; figures of the window after `settle` seconds."""
    seen: list[Seen] = []
    numbers = itertools.count()
    start = time.monotonic()
    stop = start + settle + seconds

    async def user() -> None:
        while time.monotonic() < stop:
            prompt = f"{next(numbers)} tell me about the weather in the town"
            body = {"messages": [{"role": "user", "content": prompt}], "temperature": 0, "ignore_eos": True}
            one = asyncio.create_task(stream(port, {**body, "max_tokens": max_tokens}))
            done, _ = await asyncio.wait([one], timeout=max(0.0, stop - time.monotonic()) + 60.0)
            seen.extend(task.result() for task in done)

    await asyncio.gather(*(user() for _ in range(users)))
    window = [one for one in seen if len(one.points) > 2]
    tokens = sum(one.at(stop) - one.at(start + settle) for one in window)
    speeds = [one.speed for one in window if one.points[-1][0] <= stop + 0.5]
    return Level(sum(speeds) / len(speeds), tokens / seconds)
