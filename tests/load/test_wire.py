"""The wire against a server whose truth is known, and against servers that misbehave."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl as tls
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import trustme
import uvloop

from spectune.load.stream import parse_stream
from spectune.load.wire import Outcome, Pool, RawExchange, Timeouts, encode_request

if TYPE_CHECKING:
    from tests.load.conftest import StartMock

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_MS = 1_000_000


def ask(url: str, *, tokens: int = 16, name: str = "-", path: str = "/v1/completions", **fields: Any) -> bytes:
    body = {"prompt": "one two", "max_tokens": tokens, "stream": True, "stream_options": {"include_usage": True}}
    return encode_request(url, path, orjson.dumps(body | fields), {"X-Request-Id": name})


async def server_counters(pool: Pool, url: str) -> dict[str, int]:
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


async def once(url: str, timeouts: Timeouts | None = None) -> RawExchange:
    async with Pool(url, 1, timeouts) as pool:
        return await pool.exchange(ask(url))


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def test_a_stream_is_recorded_with_the_times_of_the_server(start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "20", "--tpot-ms", "5")

    async def run() -> RawExchange:
        async with Pool(mock.url, 1) as pool:
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


def test_a_piece_is_a_read_and_keeps_all_of_its_bytes(start_mock: StartMock) -> None:
    mock = start_mock("--coalesce")
    exchange = uvloop.run(once(mock.url))
    parsed = parse_stream(exchange.pieces)
    assert len(exchange.pieces) < len(parsed.chunk_stamps_ns) == 16
    stamps = [stamp for stamp, _ in exchange.pieces]
    assert stamps == sorted(stamps)


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
        async with Pool(mock.url, 1, Timeouts(idle_s=0.5)) as pool:
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


def test_a_mixture_of_faults_is_told_apart_request_by_request(start_mock: StartMock) -> None:
    kinds = ("http500", "http429", "http400", "reset", "eof", "error", "stall", "slowbody")
    mock = start_mock("--ttft-spread-ms", "5", "--seed", "7", *(f"--fault={kind}:20" for kind in kinds))
    ended: dict[str, str] = {}

    async def worker(pool: Pool, names: list[str]) -> None:
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
        async with Pool(mock.url, 32, Timeouts(idle_s=1.0)) as pool:
            await asyncio.gather(*(worker(pool, names) for _ in range(32)))

    uvloop.run(run())
    told = {"-": "fine", "slowbody": "fine", "stall": "timeout-idle"}
    truth = {row["id"]: told.get(row["fault"], row["fault"]) for row in mock.log()}
    assert ended == truth
    assert len(ended) == 1000
    assert len(Counter(truth.values())) == 8


def test_connections_are_reused(start_mock: StartMock) -> None:
    mock = start_mock("--fault", "http500:300", "--fault", "error:300")

    async def run() -> tuple[int, dict[str, int]]:
        async with Pool(mock.url, 2) as pool:
            for _ in range(100):
                await asyncio.gather(pool.exchange(ask(mock.url)), pool.exchange(ask(mock.url)))
            return pool.opened, await server_counters(pool, mock.url)

    opened, counters = uvloop.run(run())
    assert opened == counters["mock:connections_total"] == 2
    assert counters["mock:requests_total"] == 200


def test_a_pool_never_makes_a_request_wait(start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "1500")

    async def run() -> dict[str, int]:
        async with Pool(mock.url, 8) as pool:
            running = [asyncio.create_task(pool.exchange(ask(mock.url))) for _ in range(32)]
            while pool.in_flight < 32:
                await asyncio.sleep(0.01)
            await asyncio.gather(*running)
            return await server_counters(pool, mock.url)

    assert uvloop.run(run())["mock:max_in_flight"] == 32


@pytest.mark.parametrize("blocked", [False, True])
def test_a_connection_closed_while_idle_is_replaced_before_anything_is_written(
    start_mock: StartMock, blocked: bool
) -> None:
    mock = start_mock("--idle-close-ms", "30")

    async def run() -> tuple[list[RawExchange], int]:
        async with Pool(mock.url, 1) as pool:
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


def test_a_request_that_was_written_is_never_sent_again() -> None:
    requests = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        for answer in (OK, b""):
            await read_request(reader)
            requests += 1
            writer.write(answer)

    async def run() -> list[RawExchange]:
        async with serving(handle) as url, Pool(url, 1) as pool:
            return [await pool.exchange(ask(url)) for _ in range(2)]

    first, second = uvloop.run(run())
    assert (first.outcome, second.outcome, second.status) == (Outcome.COMPLETE, Outcome.RESET, None)
    assert second.detail == "no answer: the connection was closed"
    assert requests == 2


@pytest.mark.parametrize("flags", [(), ("--early-headers",)])
def test_no_body_in_time_is_a_timeout_of_the_first_byte(start_mock: StartMock, flags: tuple[str, ...]) -> None:
    mock = start_mock("--ttft-ms", "60000", *flags)
    exchange = uvloop.run(once(mock.url, Timeouts(first_byte_s=0.2, idle_s=0.05)))
    assert exchange.outcome is Outcome.TIMED_OUT_FIRST
    assert exchange.end_ns - exchange.sent_ns >= 200 * _MS
    assert (mock.log()[0]["fault"], exchange.status) == ("gone", 200 if flags else None)


def test_an_idle_timeout_counts_from_the_last_piece_and_closes_the_connection(start_mock: StartMock) -> None:
    mock = start_mock("--tpot-ms", "50", "--fault", "stall:1000")

    async def run() -> tuple[RawExchange, dict[str, int]]:
        async with Pool(mock.url, 1, Timeouts(idle_s=0.3)) as pool:
            return await pool.exchange(ask(mock.url)), await server_counters(pool, mock.url)

    exchange, counters = uvloop.run(run())
    assert exchange.outcome is Outcome.TIMED_OUT_IDLE
    assert exchange.end_ns - exchange.pieces[-1][0] >= 300 * _MS
    assert (counters["mock:connections_open"], counters["vllm:num_requests_running"]) == (1, 0)


def test_a_server_that_does_not_accept_is_a_timeout_of_the_connection() -> None:
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
        exchange = uvloop.run(once(url, Timeouts(connect_s=0.2)))
    assert (exchange.outcome, exchange.sent_ns) == (Outcome.TIMED_OUT_CONNECT, 0)
    assert exchange.detail == "no connection after 0.2 s"


@pytest.mark.parametrize(("host", "reason"), [("127.0.0.1", "refused"), ("x" * 70, "label")])
def test_no_connection_says_why(host: str, reason: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    exchange = uvloop.run(once(f"http://{host}:{port}"))
    assert (exchange.outcome, exchange.status, exchange.sent_ns) == (Outcome.CONNECT_FAILED, None, 0)
    assert reason in exchange.detail


@pytest.mark.parametrize("trusted", [True, False])
def test_tls(start_mock: StartMock, trusted: bool) -> None:
    mock = start_mock("--tpot-ms", "1")
    authority = trustme.CA()
    server, client = tls.SSLContext(tls.PROTOCOL_TLS_SERVER), tls.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    if trusted:
        authority.configure_trust(client)

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", int(mock.url.rpartition(":")[2]))
        try:
            await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))
        finally:
            inner_writer.close()

    async def run() -> tuple[list[RawExchange], int]:
        async with serving(relay, server) as url, Pool(url, 1, ssl=client) as pool:
            return [await pool.exchange(ask(url, prompt="x " * 1_000_000)) for _ in range(3)], pool.opened

    exchanges, opened = uvloop.run(run())
    if trusted:
        assert [exchange.outcome for exchange in exchanges] == [Outcome.COMPLETE] * 3
        assert [parse_stream(exchange.pieces).usage_prompt_tokens for exchange in exchanges] == [1_000_000] * 3
        assert opened == 1
    else:
        assert [exchange.outcome for exchange in exchanges] == [Outcome.CONNECT_FAILED] * 3
        assert "certificate" in exchanges[0].detail.lower()


def test_a_request_is_sent_when_the_socket_has_taken_all_of_it() -> None:
    read_at = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal read_at
        await asyncio.sleep(0.3)
        read_at = time.perf_counter_ns()
        await answering(OK)(reader, writer)

    async def run() -> RawExchange:
        async with serving(handle) as url, Pool(url, 1) as pool:
            return await pool.exchange(ask(url, prompt="x" * 30_000_000))

    exchange = uvloop.run(run())
    assert exchange.outcome is Outcome.COMPLETE
    assert read_at < exchange.sent_ns <= exchange.end_ns


@pytest.mark.parametrize(
    ("answer", "outcome", "body"),
    [
        (OK, Outcome.COMPLETE, b"ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, Outcome.COMPLETE, b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", Outcome.COMPLETE, b""),
        (b"HTTP/1.0 200 OK\r\n\r\nup to the end", Outcome.COMPLETE, b"up to the end"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n", Outcome.TRUNCATED, b"ok"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", Outcome.TRUNCATED, b"ok"),
        (b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 9\r\n\r\nno", Outcome.HTTP_ERROR, b"no"),
        (b"HTTP/1.1 307 Temporary Redirect\r\ncontent-length: 0\r\n\r\n", Outcome.HTTP_ERROR, b""),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", Outcome.PROTOCOL_ERROR, b""),
        (b"SSH-2.0-OpenSSH_9.2\r\n", Outcome.PROTOCOL_ERROR, b""),
        (OK + OK, Outcome.PROTOCOL_ERROR, b"okok"),
        (b"HTTP/1.1 200", Outcome.RESET, b""),
        (b"", Outcome.RESET, b""),
    ],
)
def test_answers_of_all_kinds(answer: bytes, outcome: Outcome, body: bytes) -> None:
    async def run() -> RawExchange:
        async with serving(answering(answer)) as url:
            return await once(url)

    exchange = uvloop.run(run())
    assert exchange.outcome is outcome
    assert b"".join(data for _, data in exchange.pieces) == body


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
    ],
)
def test_a_connection_that_the_server_gives_up_is_not_reused(answer: bytes) -> None:
    async def run() -> tuple[list[Outcome], int]:
        async with serving(answering(answer, answer)) as url, Pool(url, 1) as pool:
            return [(await pool.exchange(ask(url))).outcome for _ in range(3)], pool.opened

    assert uvloop.run(run()) == ([Outcome.COMPLETE] * 3, 3)


def test_bytes_that_nobody_asked_for_spoil_the_connection() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answering(OK)(reader, writer)
        await asyncio.sleep(0.05)
        writer.write(OK)
        await answering(OK)(reader, writer)

    async def run() -> tuple[list[RawExchange], int]:
        async with serving(handle) as url, Pool(url, 1) as pool:
            first = await pool.exchange(ask(url))
            await asyncio.sleep(0.3)
            return [first, await pool.exchange(ask(url))], pool.opened

    exchanges, opened = uvloop.run(run())
    assert [exchange.outcome for exchange in exchanges] == [Outcome.COMPLETE] * 2
    assert opened == 2


def test_cancelling_the_pool_keeps_what_has_come(start_mock: StartMock) -> None:
    mock = start_mock("--tpot-ms", "20")

    async def run() -> tuple[RawExchange, int, RawExchange]:
        async with Pool(mock.url, 1) as pool:
            running = asyncio.create_task(pool.exchange(ask(mock.url, tokens=1000)))
            await asyncio.sleep(0.3)
            cancelled = pool.cancel()
            return await running, cancelled, await pool.exchange(ask(mock.url, tokens=1))

    cut, cancelled, after = uvloop.run(run())
    assert (cut.outcome, cancelled) == (Outcome.CANCELLED, 1)
    assert parse_stream(cut.pieces).first_token_ns is not None
    assert after.outcome is Outcome.COMPLETE


def test_cancelling_the_task_closes_its_connection(start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "60000")

    async def run() -> tuple[int, dict[str, int]]:
        async with Pool(mock.url, 1) as pool:
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


def test_closing_leaves_no_descriptor_and_nothing_in_flight(start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "60000")

    async def run() -> tuple[list[RawExchange], list[int]]:
        ended: list[RawExchange] = []
        descriptors = []
        for _ in range(3):
            async with Pool(mock.url, 16) as pool:
                running = [asyncio.create_task(pool.exchange(ask(mock.url))) for _ in range(24)]
                await asyncio.sleep(0.2)
            ended += await asyncio.gather(*running)
            descriptors.append(len(os.listdir("/proc/self/fd")))
        return ended, descriptors

    ended, descriptors = uvloop.run(run())
    assert [exchange.outcome for exchange in ended] == [Outcome.CANCELLED] * 72
    assert len(set(descriptors)) == 1


def test_an_exchange_that_is_still_connecting_does_not_start_on_a_closed_pool() -> None:
    async def run() -> RawExchange:
        async with serving(answering(OK)) as url:
            pool = Pool(url, 0)
            running = asyncio.create_task(pool.exchange(ask(url)))
            await asyncio.sleep(0)
            await pool.close()
            return await running

    assert uvloop.run(run()).outcome is Outcome.CANCELLED


def test_it_runs_on_the_standard_event_loop_too(start_mock: StartMock) -> None:
    mock = start_mock("--tpot-ms", "1", "--reasoning", "4", "--tokens-per-chunk", "1,2,3")
    exchange = asyncio.run(once(mock.url))
    assert exchange.outcome is Outcome.COMPLETE
    assert parse_stream(exchange.pieces).usage_output_tokens == 16


def test_a_request_is_encoded_whole() -> None:
    headers = {"authorization": "Bearer secret", "content-type": "text/plain"}
    request = encode_request("http://[::1]:8000/base/", "/v1/completions", b"{}", headers)
    assert request == (
        b"POST /base/v1/completions HTTP/1.1\r\nHost: [::1]:8000\r\ncontent-type: text/plain\r\n"
        b"authorization: Bearer secret\r\nContent-Length: 2\r\n\r\n{}"
    )


@pytest.mark.parametrize(
    ("url", "path", "headers"),
    [
        ("ftp://host", "/", {}),
        ("host:80", "/", {}),
        ("http://name:secret@host", "/", {}),
        ("http://host", "/a b", {}),
        ("http://host", "/a\r\nX: secret", {}),
        ("http://host", "/", {"X": "a\r\nY: secret"}),
        ("http://host", "/", {"X: secret\r\nY": "b"}),
        ("http://host", "/", {"": "b"}),
    ],
)
def test_what_cannot_be_encoded_is_refused_without_telling_secrets(
    url: str, path: str, headers: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        encode_request(url, path, b"", headers)
    assert "secret" not in str(refused.value)


def test_tls_settings_need_https() -> None:
    with pytest.raises(ValueError, match="https"):
        Pool("http://host", 1, ssl=tls.create_default_context())
