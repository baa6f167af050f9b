"""Servers that answer as they are told, and requests to them."""

from __future__ import annotations

import asyncio
import ssl as tls
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson

from spectune.load.exchange import RawExchange, Timeouts, encode_request
from spectune.load.native.pool import NativePool
from spectune.load.wire import LoopPool

AnyPool = LoopPool | NativePool
Pools = type[LoopPool] | type[NativePool]
POOLS: tuple[Pools, ...] = (LoopPool, NativePool)
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def ask(url: str, *, tokens: int = 16, name: str = "-", path: str = "/v1/completions", **fields: Any) -> bytes:
    body = {"prompt": "one two", "max_tokens": tokens, "stream": True, "stream_options": {"include_usage": True}}
    return encode_request(url, path, orjson.dumps(body | fields), {"X-Request-Id": name})


async def server_counters(pool: AnyPool, url: str) -> dict[str, int]:
    exchange = await pool.exchange(encode_request(url, "/metrics", b"", {}, "GET"))
    page = b"".join(data for _, data in exchange.pieces).decode()
    rows = (line.split() for line in page.splitlines() if not line.startswith("#"))
    return {name.partition("{")[0]: int(value) for name, value in rows}


@asynccontextmanager
async def serving(handler: Handler, ssl: tls.SSLContext | None = None) -> AsyncIterator[str]:
    """A server in this loop that closes a connection when its handler returns."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await handler(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(
        lambda reader, writer: tasks.add(asyncio.create_task(handle(reader, writer))), "127.0.0.1", 0, ssl=ssl
    )
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"{'https' if ssl else 'http'}://127.0.0.1:{port}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.05)  # lets the transports close


async def read_request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    await reader.readexactly(int(length.split(b":")[1]))


def answering(*answers: bytes) -> Handler:
    """Answers each request of a connection with the next of these bytes, then closes."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await read_request(reader)
            writer.write(answer)
            await writer.drain()

    return handle


async def once(pools: Pools, url: str, timeouts: Timeouts | None = None) -> RawExchange:
    async with pools(url, 1, timeouts) as pool:
        return await pool.exchange(ask(url))


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
