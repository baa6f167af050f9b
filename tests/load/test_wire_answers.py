"""What comes over a connection, and what goes: TLS, answers of all kinds, encoded requests."""

from __future__ import annotations

import asyncio
import ssl as tls
import time

import pytest
import trustme
import uvloop

from spectune.load.exchange import Outcome, RawExchange, encode_request
from spectune.load.stream import parse_stream
from spectune.load.wire import LoopPool
from tests.load.conftest import StartMock
from tests.load.serving import OK, Pools, answering, ask, once, serving


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
        async with serving(relay, server) as url, LoopPool(url, 1, ssl=client) as pool:
            return [await pool.exchange(ask(url, prompt="x " * 1_000_000)) for _ in range(3)], pool.opened

    exchanges, opened = uvloop.run(run())
    if trusted:
        assert [exchange.outcome for exchange in exchanges] == [Outcome.COMPLETE] * 3
        assert [parse_stream(exchange.pieces).usage_prompt_tokens for exchange in exchanges] == [1_000_000] * 3
        assert opened == 1
    else:
        assert [exchange.outcome for exchange in exchanges] == [Outcome.CONNECT_FAILED] * 3
        assert "certificate" in exchanges[0].detail.lower()


def test_a_request_is_sent_when_the_socket_has_taken_all_of_it(pools: Pools) -> None:
    read_at = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal read_at
        await asyncio.sleep(0.3)
        read_at = time.perf_counter_ns()
        await answering(OK)(reader, writer)

    async def run() -> RawExchange:
        async with serving(handle) as url, pools(url, 1) as pool:
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
def test_answers_of_all_kinds(pools: Pools, answer: bytes, outcome: Outcome, body: bytes) -> None:
    async def run() -> RawExchange:
        async with serving(answering(answer)) as url:
            return await once(pools, url)

    exchange = uvloop.run(run())
    assert exchange.outcome is outcome
    got = b"".join(data for _, data in exchange.pieces)
    assert got == body or (outcome is Outcome.PROTOCOL_ERROR and body.startswith(got))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
    ],
)
def test_a_connection_that_the_server_gives_up_is_not_reused(pools: Pools, answer: bytes) -> None:
    async def run() -> tuple[list[Outcome], int]:
        async with serving(answering(answer, answer)) as url, pools(url, 1) as pool:
            return [(await pool.exchange(ask(url))).outcome for _ in range(3)], pool.opened

    assert uvloop.run(run()) == ([Outcome.COMPLETE] * 3, 3)


def test_bytes_that_nobody_asked_for_spoil_the_connection(pools: Pools) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answering(OK)(reader, writer)
        await asyncio.sleep(0.05)
        writer.write(OK)
        await answering(OK)(reader, writer)

    async def run() -> tuple[list[RawExchange], int]:
        async with serving(handle) as url, pools(url, 1) as pool:
            first = await pool.exchange(ask(url))
            await asyncio.sleep(0.3)
            return [first, await pool.exchange(ask(url))], pool.opened

    exchanges, opened = uvloop.run(run())
    assert [exchange.outcome for exchange in exchanges] == [Outcome.COMPLETE] * 2
    assert opened == 2


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
        LoopPool("http://host", 1, ssl=tls.create_default_context())
