"""The wire against a server whose truth is known: times, faults, connections, time limits, cancelling."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import Counter
from contextlib import suppress

import pytest
import uvloop

from spectune.load.exchange import Outcome, RawExchange, Timeouts
from spectune.load.stream import parse_stream
from tests.load.conftest import StartMock
from tests.load.serving import OK, AnyPool, Pools, answering, ask, once, read_request, server_counters, serving

_MS = 1_000_000


def test_a_stream_is_recorded_with_the_times_of_the_server(pools: Pools, start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "20", "--tpot-ms", "5")

    async def run() -> RawExchange:
        async with pools(mock.url, 1) as pool:
            return await pool.exchange(ask(mock.url))

    exchange = uvloop.run(run())
    (truth,) = mock.log()
    parsed = parse_stream(exchange.pieces)
    assert (exchange.outcome, exchange.status, exchange.detail) == (Outcome.COMPLETE, 200, "")
    assert (parsed.usage_output_tokens, parsed.usage_prompt_tokens, parsed.done) == (16, 2, True)
    assert len(parsed.text.split()) == 16
    requested = int(truth["t_req"])
    assert exchange.sent_ns <= requested
    assert exchange.end_ns >= int(truth["t_last"])
    # Every chunk arrives after it was due: nothing is stamped early, and no chunk is taken for another one.
    for k, stamp in enumerate(parsed.chunk_stamps_ns):
        assert stamp >= requested + 20 * _MS + k * 5 * _MS


def test_all_pieces_of_a_read_have_its_time(pools: Pools, start_mock: StartMock) -> None:
    mock = start_mock("--coalesce")
    exchange = uvloop.run(once(pools, mock.url))
    parsed = parse_stream(exchange.pieces)
    stamps = [stamp for stamp, _ in exchange.pieces]
    assert stamps == sorted(stamps)
    assert len(set(stamps)) < len(parsed.chunk_stamps_ns) == 16


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
@pytest.mark.parametrize(
    ("fault", "outcome", "status", "finish_reason", "error"),
    [
        ("http500", Outcome.HTTP_ERROR, 500, None, None),
        ("http429", Outcome.HTTP_ERROR, 429, None, None),
        ("http400", Outcome.HTTP_ERROR, 400, None, None),
        ("reset", Outcome.RESET, 200, None, None),
        ("eof", Outcome.COMPLETE, 200, None, None),
        ("error", Outcome.COMPLETE, 200, None, "injected error"),
        ("stall", Outcome.TIMED_OUT_IDLE, 200, None, None),
        ("slowbody", Outcome.COMPLETE, 200, "length", None),
    ],
)
def test_each_fault_has_its_outcome(
    pools: Pools,
    start_mock: StartMock,
    path: str,
    fault: str,
    outcome: Outcome,
    status: int,
    finish_reason: str | None,
    error: str | None,
) -> None:
    mock = start_mock("--tpot-ms", "1", "--fault", f"{fault}:1000")

    async def run() -> RawExchange:
        async with pools(mock.url, 1, Timeouts(idle_s=0.5)) as pool:
            return await pool.exchange(ask(mock.url, path=path, messages=[{"role": "user", "content": "hi"}]))

    exchange = uvloop.run(run())
    parsed = parse_stream(exchange.pieces)
    assert (exchange.outcome, exchange.status) == (outcome, status)
    assert (parsed.finish_reason, parsed.error, parsed.malformed) == (finish_reason, error, 0)
    assert bool(exchange.detail) == (outcome is not Outcome.COMPLETE)
    if status == 200:
        assert len(parsed.chunk_stamps_ns) == (16 if finish_reason else 8)
    (truth,) = mock.log()
    assert truth["fault"] == fault


def test_a_mixture_of_faults_is_told_apart_request_by_request(pools: Pools, start_mock: StartMock) -> None:
    kinds = ("http500", "http429", "http400", "reset", "eof", "error", "stall", "slowbody")
    mock = start_mock("--ttft-spread-ms", "5", "--seed", "7", *(f"--fault={kind}:20" for kind in kinds))
    ended: dict[str, str] = {}

    async def worker(pool: AnyPool, names: list[str]) -> None:
        while names:
            name = names.pop()
            exchange = await pool.exchange(ask(mock.url, name=name))
            parsed = parse_stream(exchange.pieces)
            whole = exchange.outcome is Outcome.COMPLETE
            if exchange.outcome is Outcome.HTTP_ERROR:
                ended[name] = f"http{exchange.status}"
            elif whole:
                ended[name] = "error" if parsed.error else "fine" if parsed.finish_reason else "eof"
            else:
                ended[name] = exchange.outcome.value

    async def run() -> None:
        names = [f"request-{i}" for i in range(1000)]
        async with pools(mock.url, 32, Timeouts(idle_s=1.0)) as pool:
            await asyncio.gather(*(worker(pool, names) for _ in range(32)))

    uvloop.run(run())
    told = {"-": "fine", "slowbody": "fine", "stall": "timeout-idle"}
    truth = {row["id"]: told.get(row["fault"], row["fault"]) for row in mock.log()}
    assert ended == truth
    assert len(ended) == 1000
    assert len(Counter(truth.values())) == 8


def test_connections_are_reused(pools: Pools, start_mock: StartMock) -> None:
    mock = start_mock("--fault", "http500:300", "--fault", "error:300")

    async def run() -> tuple[int, dict[str, int]]:
        async with pools(mock.url, 2) as pool:
            for _ in range(100):
                await asyncio.gather(pool.exchange(ask(mock.url)), pool.exchange(ask(mock.url)))
            return pool.opened, await server_counters(pool, mock.url)

    opened, counters = uvloop.run(run())
    assert opened == counters["mock:connections_total"] == 2
    assert counters["mock:requests_total"] == 200


def test_a_pool_never_makes_a_request_wait(pools: Pools, start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "1500")

    async def run() -> dict[str, int]:
        async with pools(mock.url, 8) as pool:
            running = [asyncio.create_task(pool.exchange(ask(mock.url))) for _ in range(32)]
            while pool.in_flight < 32:
                await asyncio.sleep(0.01)
            await asyncio.gather(*running)
            return await server_counters(pool, mock.url)

    assert uvloop.run(run())["mock:max_in_flight"] == 32


@pytest.mark.parametrize("blocked", [False, True])
def test_a_connection_closed_while_idle_is_replaced_before_anything_is_written(
    pools: Pools, start_mock: StartMock, blocked: bool
) -> None:
    mock = start_mock("--idle-close-ms", "30")

    async def run() -> tuple[list[RawExchange], int]:
        async with pools(mock.url, 1) as pool:
            first = await pool.exchange(ask(mock.url))
            if blocked:
                time.sleep(0.3)  # the loop must not learn of the close before the next request
            else:
                await asyncio.sleep(0.3)
            return [first, await pool.exchange(ask(mock.url))], pool.opened

    exchanges, opened = uvloop.run(run())
    assert [exchange.outcome for exchange in exchanges] == [Outcome.COMPLETE] * 2
    assert opened == 2
    assert len(mock.log()) == 2


def test_a_request_that_was_written_is_never_sent_again(pools: Pools) -> None:
    requests = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        for answer in (OK, b""):
            await read_request(reader)
            requests += 1
            writer.write(answer)

    async def run() -> list[RawExchange]:
        async with serving(handle) as url, pools(url, 1) as pool:
            return [await pool.exchange(ask(url)) for _ in range(2)]

    first, second = uvloop.run(run())
    assert (first.outcome, second.outcome, second.status) == (Outcome.COMPLETE, Outcome.RESET, None)
    assert second.detail == "no answer: the connection was closed"
    assert requests == 2


@pytest.mark.parametrize("flags", [(), ("--early-headers",)])
def test_no_body_in_time_is_a_timeout_of_the_first_byte(
    pools: Pools, start_mock: StartMock, flags: tuple[str, ...]
) -> None:
    mock = start_mock("--ttft-ms", "60000", *flags)
    exchange = uvloop.run(once(pools, mock.url, Timeouts(first_byte_s=0.2, idle_s=0.05)))
    assert exchange.outcome is Outcome.TIMED_OUT_FIRST
    assert exchange.end_ns - exchange.sent_ns >= 200 * _MS
    assert (mock.log()[0]["fault"], exchange.status) == ("gone", 200 if flags else None)


def test_an_idle_timeout_counts_from_the_last_piece_and_closes_the_connection(
    pools: Pools, start_mock: StartMock
) -> None:
    mock = start_mock("--tpot-ms", "50", "--fault", "stall:1000")

    async def run() -> tuple[RawExchange, dict[str, int]]:
        async with pools(mock.url, 1, Timeouts(idle_s=0.3)) as pool:
            return await pool.exchange(ask(mock.url)), await server_counters(pool, mock.url)

    exchange, counters = uvloop.run(run())
    assert exchange.outcome is Outcome.TIMED_OUT_IDLE
    assert exchange.end_ns - exchange.pieces[-1][0] >= 300 * _MS
    assert (counters["mock:connections_open"], counters["vllm:num_requests_running"]) == (1, 0)


def test_a_server_that_does_not_accept_is_a_timeout_of_the_connection(pools: Pools) -> None:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as server,
        socket.socket() as first,
        socket.socket() as second,
    ):
        for filler in (first, second):
            filler.setblocking(False)
            with suppress(BlockingIOError):
                filler.connect(server.getsockname())
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        exchange = uvloop.run(once(pools, url, Timeouts(connect_s=0.2)))
    assert (exchange.outcome, exchange.sent_ns) == (Outcome.TIMED_OUT_CONNECT, 0)
    assert exchange.detail == "no connection after 0.2 s"


@pytest.mark.parametrize(("host", "reason"), [("127.0.0.1", "refused"), ("x" * 70, "label")])
def test_no_connection_says_why(pools: Pools, host: str, reason: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    exchange = uvloop.run(once(pools, f"http://{host}:{port}"))
    assert (exchange.outcome, exchange.status, exchange.sent_ns) == (Outcome.CONNECT_FAILED, None, 0)
    assert reason in exchange.detail


def test_cancelling_the_pool_keeps_what_has_come(pools: Pools, start_mock: StartMock) -> None:
    mock = start_mock("--tpot-ms", "20")

    async def run() -> tuple[RawExchange, int, RawExchange]:
        async with pools(mock.url, 1) as pool:
            running = asyncio.create_task(pool.exchange(ask(mock.url, tokens=1000)))
            await asyncio.sleep(0.3)
            cancelled = pool.cancel()
            return await running, cancelled, await pool.exchange(ask(mock.url, tokens=1))

    cut, cancelled, after = uvloop.run(run())
    assert (cut.outcome, cancelled) == (Outcome.CANCELLED, 1)
    assert parse_stream(cut.pieces).first_token_ns is not None
    assert after.outcome is Outcome.COMPLETE


def test_cancelling_the_task_closes_its_connection(pools: Pools, start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "60000")

    async def run() -> tuple[int, dict[str, int]]:
        async with pools(mock.url, 1) as pool:
            running = asyncio.create_task(pool.exchange(ask(mock.url)))
            await asyncio.sleep(0.1)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            return pool.in_flight, await server_counters(pool, mock.url)

    in_flight, counters = uvloop.run(run())
    assert in_flight == 0
    assert counters["vllm:num_requests_running"] == 0
    assert counters["mock:connections_open"] == 1


def test_closing_leaves_no_descriptor_and_nothing_in_flight(pools: Pools, start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "60000")

    async def run() -> tuple[list[RawExchange], list[int]]:
        ended: list[RawExchange] = []
        descriptors = []
        for _ in range(3):
            async with pools(mock.url, 16) as pool:
                running = [asyncio.create_task(pool.exchange(ask(mock.url))) for _ in range(24)]
                await asyncio.sleep(0.2)
            ended += await asyncio.gather(*running)
            descriptors.append(len(os.listdir("/proc/self/fd")))
        return ended, descriptors

    ended, descriptors = uvloop.run(run())
    assert [exchange.outcome for exchange in ended] == [Outcome.CANCELLED] * 72
    assert len(set(descriptors)) == 1


def test_an_exchange_that_is_still_connecting_does_not_start_on_a_closed_pool(pools: Pools) -> None:
    async def run() -> RawExchange:
        async with serving(answering(OK)) as url:
            pool = pools(url, 0)
            running = asyncio.create_task(pool.exchange(ask(url)))
            await asyncio.sleep(0)
            await pool.close()
            return await running

    assert uvloop.run(run()).outcome is Outcome.CANCELLED


def test_it_runs_on_the_standard_event_loop_too(pools: Pools, start_mock: StartMock) -> None:
    mock = start_mock("--tpot-ms", "1", "--reasoning", "4", "--tokens-per-chunk", "1,2,3")
    exchange = asyncio.run(once(pools, mock.url))
    assert exchange.outcome is Outcome.COMPLETE
    assert parse_stream(exchange.pieces).usage_output_tokens == 16
