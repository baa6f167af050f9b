"""Connections whose answers a compiled thread reads and stamps: what wire.LoopPool does, without TLS."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
from array import array
from time import perf_counter_ns
from typing import Any, Self

from spectune.load.exchange import Outcome, RawExchange, Timeouts, judged, not_connected, open_ahead, split_url
from spectune.load.native.library import library
from spectune.load.tape import Tape

_AT_ONCE = 64
_OUTCOMES = (
    Outcome.COMPLETE,
    Outcome.PROTOCOL_ERROR,
    Outcome.RESET,
    Outcome.TRUNCATED,
    Outcome.TIMED_OUT_FIRST,
    Outcome.TIMED_OUT_IDLE,
    Outcome.CANCELLED,
)


class NativePool:
    """Keep-alive connections to one server over plain HTTP; an exchange.Pool.

    Connections go by the number that the reader gives them. Between `start` and the bell one is the reader's.
    """

    def __init__(self, url: str, size: int, timeouts: Timeouts | None = None, reuse: bool = True) -> None:
        """Opens nothing yet. Takes what wire.LoopPool does, but for TLS.

        Raises:
            ValueError: the URL is not http://host[:port].
            OSError: there is no compiled library.
        """
        server = split_url(url)
        if server.scheme != "http":
            raise ValueError("only plain HTTP is read by the compiled client")
        self.timeouts = timeouts or Timeouts()
        self.opened = 0
        self._address = (server.hostname or "", server.port or 80)
        self._size = size
        self._reuse = reuse
        loaded = library()
        if loaded is None:
            raise OSError("the compiled client is missing")
        self._library: Any = loaded
        self._reader: int | None = None  # from the first connection on
        self._bell = -1
        self._closed = False
        self._ended = (ctypes.c_int32 * _AT_ONCE)()
        self._idle: list[int] = []
        self._waiting: dict[int, asyncio.Future[RawExchange]] = {}

    @property
    def in_flight(self) -> int:
        """Exchanges whose request has been written and whose end has not been told."""
        return len(self._waiting)

    @property
    def lag_s(self) -> tuple[float, float]:
        """See exchange.Pool."""
        mean, most = ctypes.c_int64(), ctypes.c_int64()
        if self._reader is not None:
            self._library.spectune_reader_lag(self._reader, ctypes.byref(mean), ctypes.byref(most))
        return mean.value / 1e9, most.value / 1e9

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> int:
        """Connects until `size` connections are idle; see open_ahead."""
        return await open_ahead(self._connect, self._idle, self._size)

    async def exchange(self, request: bytes) -> RawExchange:
        """See exchange.Pool."""
        while not self._closed:
            try:
                number = self._idle.pop() if self._idle else await self._connect()
            except (OSError, UnicodeError) as error:  # the latter: a name that DNS could not hold
                return not_connected(error, self.timeouts)
            if number < 0:
                break
            if self._library.spectune_reader_start(self._reader, number, request, len(request)) == 0:
                return await self._end_of(number)
            self._library.spectune_reader_close(self._reader, number)
        return RawExchange(Outcome.CANCELLED, None, 0, (), perf_counter_ns())

    async def _end_of(self, number: int) -> RawExchange:
        future: asyncio.Future[RawExchange] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            return await future
        except asyncio.CancelledError:
            if self._waiting.pop(number, None) and self._reader is not None:
                self._library.spectune_reader_close(self._reader, number)
            raise

    def cancel(self) -> int:
        """See exchange.Pool."""
        numbers = [n for n in self._waiting if self._library.spectune_reader_cancel(self._reader, n)]
        for number in numbers:
            self._tell(number)
        return len(numbers)

    async def close(self) -> None:
        """Cancels what is in flight and returns when every connection is closed, descriptor and all."""
        self._closed = True
        if self._reader is None:
            return
        self._hear()  # of what has ended by itself
        self.cancel()
        asyncio.get_running_loop().remove_reader(self._bell)
        reader, self._reader = self._reader, None
        self._library.spectune_reader_free(reader)
        self._idle.clear()

    async def _connect(self) -> int:
        """Opens a connection, and returns its number; -1 where the pool was closed meanwhile."""
        async with asyncio.timeout(self.timeouts.connect_s):
            connected = await _dial(*self._address)
        if self._closed:
            connected.close()
            return -1
        if self._reader is None:
            self._start()
        self.opened += 1
        number: int = self._library.spectune_reader_add(self._reader, connected.detach())
        return number

    def _start(self) -> None:
        """Starts the thread that reads.

        Raises:
            OSError: the system has no room for it.
        """
        limits = (int(1e9 * min(seconds, 1e9)) for seconds in (self.timeouts.first_byte_s, self.timeouts.idle_s))
        self._reader = self._library.spectune_reader_new(*limits)
        if self._reader is None:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._bell = self._library.spectune_reader_bell(self._reader)
        asyncio.get_running_loop().add_reader(self._bell, self._hear)

    def _hear(self) -> None:
        """Tells of the exchanges that have ended."""
        while self._reader is not None:
            count = self._library.spectune_reader_ended(self._reader, self._ended, _AT_ONCE)
            for number in self._ended[:count]:
                self._tell(number)
            if count < _AT_ONCE:
                return

    def _tell(self, number: int) -> None:
        future = self._waiting.pop(number)
        result = self._library.spectune_reader_result(self._reader, number).contents
        if not future.done():
            future.set_result(self._raw(result))
        if result.reusable and self._reuse:
            self._library.spectune_reader_reuse(self._reader, number)
            self._idle.append(number)
        else:
            self._library.spectune_reader_close(self._reader, number)

    def _raw(self, result: Any) -> RawExchange:
        outcome, status, detail = _OUTCOMES[result.outcome], result.status or None, ""
        if outcome is Outcome.COMPLETE:
            outcome, detail = judged(status)
        elif outcome is Outcome.PROTOCOL_ERROR:
            detail = result.wrong.decode()
        elif outcome is Outcome.TRUNCATED:
            detail = "the connection was closed within the answer"
        elif outcome is Outcome.RESET:
            detail = os.strerror(result.error) if result.error else "the connection was closed"
            detail = detail if status else f"no answer: {detail}"
        else:
            detail = self.timeouts.words(outcome)
        body = ctypes.string_at(result.body, result.body_n) if result.body_n else b""
        marks = array("q")
        if result.reads:
            marks.frombytes(ctypes.string_at(result.marks, 16 * result.reads))
        tape = Tape(body, marks[0::2], marks[1::2])
        return RawExchange(outcome, status, result.sent_ns, tape, result.end_ns, detail)


async def _dial(host: str, port: int) -> socket.socket:
    """Connects to the first address of the name that lets it."""
    loop = asyncio.get_running_loop()
    error: OSError | None = None
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connecting = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, protocol)
        try:
            connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(connecting, address)
        except OSError as refused:
            connecting.close()
            code = refused.errno or 0  # whose usual words say more than those of asyncio
            error = error or OSError(code, os.strerror(code))
        except BaseException:
            connecting.close()
            raise
        else:
            return connecting
    raise error or OSError(f"{host} has no address")
