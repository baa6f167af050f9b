"""What only the compiled client does; all else it shares with the other one (tests/load/test_wire.py)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from contextlib import suppress

import pytest
import uvloop

from spectune.load.exchange import Outcome, RawExchange, Timeouts
from spectune.load.native import pool as native
from spectune.load.native.pool import NativePool
from tests.load.serving import OK, answering, ask, read_request, serving

_MS = 1_000_000
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"
_CHILD = """
import asyncio, sys
from spectune.load.exchange import encode_request
from spectune.load.native.pool import NativePool

async def run():
    async with NativePool(sys.argv[1], 1) as pool:
        print("ready", flush=True)
        exchange = await pool.exchange(encode_request(sys.argv[1], "/", b"", {}))
        print(*(stamp for stamp, _ in exchange.pieces), exchange.end_ns)

asyncio.run(run())
"""


def test_a_client_that_stands_still_stamps_what_arrives_meanwhile_all_the_same() -> None:
    sent: list[int] = []
    stopped: asyncio.Future[int]

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(_HEAD + b"ab")
        await writer.drain()
        await asyncio.sleep(0.1)
        os.kill(await stopped, signal.SIGSTOP)
        await asyncio.sleep(0.1)
        sent.append(time.perf_counter_ns())
        writer.write(b"cd")
        await writer.drain()
        await asyncio.sleep(0.4)
        os.kill(await stopped, signal.SIGCONT)
        await asyncio.sleep(0.2)  # the end of a connection has a time as well, which would be that of all unread

    async def run() -> list[int]:
        nonlocal stopped
        stopped = asyncio.get_running_loop().create_future()
        async with serving(handle) as url:
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _CHILD, url, stdout=asyncio.subprocess.PIPE
            )
            assert child.stdout
            assert await child.stdout.readline() == b"ready\n"
            stopped.set_result(child.pid)
            out, _ = await child.communicate()
            return [int(word) for word in out.split()]

    first, last, end = asyncio.run(run())
    assert first < sent[0] <= last == end
    assert last - sent[0] < 200 * _MS  # and not the 400 that it was read late


def test_it_tells_how_late_its_thread_is() -> None:
    async def run() -> tuple[float, float]:
        async with serving(answering(OK)) as url, NativePool(url, 1) as pool:
            await asyncio.sleep(0.3)
            return pool.lag_s

    mean, most = uvloop.run(run())
    assert 0 < mean <= most < 1


def test_an_exchange_that_ends_while_its_task_is_cancelled_is_nobody_elses() -> None:
    async def run() -> list[RawExchange]:
        async with serving(answering(OK, OK)) as url, NativePool(url, 1) as pool:
            running = asyncio.create_task(pool.exchange(ask(url)))
            await asyncio.sleep(0)
            time.sleep(0.2)  # the answer has come, and the loop does not know yet
            running.cancel()
            exchanges = [await pool.exchange(ask(url)) for _ in range(2)]
            with pytest.raises(asyncio.CancelledError):
                await running
            return exchanges

    for exchange in uvloop.run(run()):
        assert (exchange.outcome, [data for _, data in exchange.pieces]) == (Outcome.COMPLETE, [b"ok"])


def test_a_cancelled_exchange_does_not_time_out_later() -> None:
    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)

    async def run() -> tuple[list[str], int]:
        troubles: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: troubles.append(str(context)))
        async with serving(never) as url, NativePool(url, 1, Timeouts(first_byte_s=0.3)) as pool:
            running = asyncio.create_task(pool.exchange(ask(url)))
            await asyncio.sleep(0.1)
            running.cancel()
            await asyncio.sleep(0.6)
            return troubles, pool.in_flight

    assert uvloop.run(run()) == ([], 0)


def test_closing_ends_what_is_in_flight_and_can_be_done_again() -> None:
    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async def run() -> tuple[RawExchange, RawExchange]:
        async with serving(never) as url:
            pool = NativePool(url, 1)
            running = asyncio.create_task(pool.exchange(ask(url)))
            await asyncio.sleep(0.1)
            await pool.close()
            await pool.close()
            return await running, await pool.exchange(ask(url))

    assert [exchange.outcome for exchange in uvloop.run(run())] == [Outcome.CANCELLED, Outcome.CANCELLED]


def test_a_pool_that_is_never_opened_takes_nothing() -> None:
    before = threading.active_count(), len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
    pools = [NativePool("http://127.0.0.1:1", 4) for _ in range(3)]
    assert (threading.active_count(), len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))) == before
    assert [pool.in_flight for pool in pools] == [0, 0, 0]


def test_without_the_library_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "library", lambda: None)
    with pytest.raises(OSError, match="missing"):
        NativePool("http://127.0.0.1:1", 1)


def test_it_speaks_no_tls() -> None:
    with pytest.raises(ValueError, match="plain HTTP"):
        NativePool("https://127.0.0.1:1", 1)
