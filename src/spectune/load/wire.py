"""The hot path of the load client: one HTTP/1.1 exchange, recorded now and parsed later.

A `LoopPool` keeps connections open to one server. Its `exchange` writes one encoded request and returns how it ended,
when the request left, and every piece of the body with its time of arrival. Nothing but HTTP's framing is decoded here.

All times are `time.perf_counter_ns()`: on Linux CLOCK_MONOTONIC, the same clock in every process of the machine.
"""

from __future__ import annotations

import asyncio
import select
import ssl as tls
from array import array
from time import perf_counter_ns
from typing import Any, Self, cast

import httptools

from spectune.load.exchange import (
    Outcome,
    RawExchange,
    Timeouts,
    judged,
    not_connected,
    open_ahead,
    split_url,
)
from spectune.load.tape import Tape

_SWEEP_S = 0.05


class LoopPool:
    """Keep-alive connections to one server, read by the event loop itself; an exchange.Pool."""

    def __init__(
        self,
        url: str,
        size: int,
        timeouts: Timeouts | None = None,
        ssl: tls.SSLContext | None = None,
        reuse: bool = True,
    ) -> None:
        """Opens nothing yet.

        Args:
            url: of the server; its path is ignored.
            size: connections that `open` brings up.
            timeouts: of every exchange.
            ssl: for https; by default certificates are verified as usual.
            reuse: False opens a connection for every exchange, for servers that say keep-alive and then close.

        Raises:
            ValueError: the URL is not http(s)://host[:port], or has TLS settings without https.
        """
        server = split_url(url)
        secure = server.scheme == "https"
        if ssl and not secure:
            raise ValueError("TLS settings for a URL that is not https")
        self.timeouts = timeouts or Timeouts()
        self.opened = 0
        self._address = (server.hostname or "", server.port or (443 if secure else 80))
        self._ssl = (ssl or tls.create_default_context()) if secure else None
        self._size = size
        self.reuse = reuse
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._all: set[_Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._sweep_due_ns = 0
        self._closing = False
        self._all_closed: asyncio.Future[None] | None = None

    @property
    def lag_s(self) -> None:
        """See exchange.Pool."""

    @property
    def in_flight(self) -> int:
        """Exchanges whose request has been written and whose end has not been seen."""
        return len(self._busy)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> int:
        """Connects until `size` connections are idle; see open_ahead."""
        return await open_ahead(self._connect, self._idle, self._size)

    async def exchange(self, request: bytes) -> RawExchange:
        """See exchange.Pool."""
        connection = self._take_idle()
        if connection is None:
            try:
                connection = await self._connect()
            except (OSError, UnicodeError) as error:  # the latter: a name that DNS could not hold
                return not_connected(error, self.timeouts)
        if self._closing:
            connection.close()
            return RawExchange(Outcome.CANCELLED, None, 0, (), perf_counter_ns())
        try:
            return await connection.start(request)
        except asyncio.CancelledError:
            connection.close()
            raise

    def cancel(self) -> int:
        """See exchange.Pool."""
        busy = list(self._busy)
        for connection in busy:
            connection.close()
        return len(busy)

    async def close(self) -> None:
        """Cancels what is in flight and returns when every connection is closed, descriptor and all."""
        self._closing = True
        for connection in list(self._all):
            connection.close()
        if self._sweeper:
            self._sweeper.cancel()
        if self._all:
            self._all_closed = asyncio.get_running_loop().create_future()
            await self._all_closed

    def _take_idle(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable():
                return connection
            connection.close()
        return None

    async def _connect(self) -> _Connection:
        make = asyncio.get_running_loop().create_connection
        async with asyncio.timeout(self.timeouts.connect_s):
            _, connection = await make(lambda: _Connection(self), *self._address, ssl=self._ssl)
        return connection

    def _sweep(self) -> None:
        """Ends what has timed out. One timer for the whole pool: one for every piece would cost more than the piece."""
        now = perf_counter_ns()
        # After a long pause of this process, answers may lie unread: judge only at the next turn.
        if now - self._sweep_due_ns < 1_000_000_000:
            for connection in list(self._busy):
                connection.check_deadline(now)
        self._sweeper = self._next_sweep() if self._busy else None

    def _next_sweep(self) -> asyncio.TimerHandle:
        self._sweep_due_ns = perf_counter_ns() + int(_SWEEP_S * 1e9)
        return asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)

    def _made(self, connection: _Connection) -> None:
        self.opened += 1
        self._all.add(connection)

    def _started(self, connection: _Connection) -> None:
        self._busy.add(connection)
        self._sweeper = self._sweeper or self._next_sweep()

    def _ended(self, connection: _Connection, reusable: bool) -> None:
        self._busy.discard(connection)
        if reusable:
            self._idle.append(connection)

    def _lost(self, connection: _Connection) -> None:
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if self._all_closed and not self._all and not self._all_closed.done():
            self._all_closed.set_result(None)


class _Connection(asyncio.Protocol):
    """One connection with the exchange on it, if any; also what its parser reports to (the methods named on_...)."""

    def __init__(self, pool: LoopPool) -> None:
        self._pool = pool
        self._transport: asyncio.Transport
        self._future: asyncio.Future[RawExchange] | None = None
        self._bodies: list[bytes] = []
        self._stamps: array[int] = array("q")
        self._stops: list[int] = []  # how many bodies there were after the read of the same index in stamps
        self._status: int | None = None
        self._answers = 0
        self._sent_ns = 0
        self._has_length = self._keep_alive = self._unsent = False
        # The parser calls list.append itself: a chunk of the body costs no Python frame.
        self.on_body = self._bodies.append
        self._parser: Any = httptools.HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        stamp = perf_counter_ns()
        if self._future is None:  # nobody asked, so nothing that comes on this connection can be trusted
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._end(Outcome.PROTOCOL_ERROR, _name(error), stamp)
            return
        self._stamps.append(stamp)
        self._stops.append(len(self._bodies))
        if self._answers:
            self._end_answered(stamp)

    def is_usable(self) -> bool:
        """Whether the peer has kept the connection open, even if the loop has not yet noticed that it did not."""
        return not self._transport.is_closing() and not self._poll.poll(0)

    def start(self, request: bytes) -> asyncio.Future[RawExchange]:
        self._future = asyncio.get_running_loop().create_future()
        self._answers = 0
        self._status = None
        self._has_length = self._keep_alive = self._unsent = False
        self._pool._started(self)
        self._sent_ns = perf_counter_ns()
        self._transport.write(request)
        return self._future

    def close(self) -> None:
        """Closes the connection; an exchange on it ends as CANCELLED."""
        self._end(Outcome.CANCELLED, "", perf_counter_ns())
        self._transport.abort()

    def check_deadline(self, now: int) -> None:
        limits = self._pool.timeouts
        if self._bodies:
            if now - self._stamps[-1] > limits.idle_s * 1e9:
                self._end(Outcome.TIMED_OUT_IDLE, limits.words(Outcome.TIMED_OUT_IDLE), now)
        elif now - self._sent_ns > limits.first_byte_s * 1e9:
            self._end(Outcome.TIMED_OUT_FIRST, limits.words(Outcome.TIMED_OUT_FIRST), now)

    def _end_answered(self, stamp: int) -> None:
        if self._answers > 1:
            self._end(Outcome.PROTOCOL_ERROR, "more than one answer to one request", stamp)
            return
        outcome, detail = judged(self._status)
        self._end(outcome, detail, stamp, reusable=self._pool.reuse and self._keep_alive and not self._unsent)

    def _end(self, outcome: Outcome, detail: str, end_ns: int, reusable: bool = False) -> None:
        future, self._future = self._future, None
        if future is None:
            return
        pieces = Tape.later(self._bodies.copy(), self._stamps, self._stops)
        self._bodies.clear()  # and not a new list: the parser holds this one
        self._stamps, self._stops = array("q"), []
        if not future.done():
            future.set_result(RawExchange(outcome, self._status, self._sent_ns, pieces, end_ns, detail))
        self._pool._ended(self, reusable)
        if not reusable:
            self._transport.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._has_length = True

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()

    def on_message_complete(self) -> None:
        if self._status and self._status >= 200:  # 1xx only announces the answer
            self._answers += 1
            self._keep_alive = self._parser.should_keep_alive()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # pause_writing then tells of whatever is not taken at once. (With high=0, TLS would pause on nothing.)
        self._transport.set_write_buffer_limits(high=1, low=0)
        self._poll = select.poll()
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
        self._pool._made(self)

    def pause_writing(self) -> None:
        self._unsent = True

    def resume_writing(self) -> None:
        if self._unsent:
            self._unsent = False
            self._sent_ns = perf_counter_ns()

    def connection_lost(self, error: Exception | None) -> None:
        now = perf_counter_ns()
        outcome, detail = judged(self._status)
        if self._status is None:
            self._end(Outcome.RESET, f"no answer: {_name(error) if error else 'the connection was closed'}", now)
        elif outcome is not Outcome.COMPLETE or (not error and not self._has_length):
            self._end(outcome, detail, now)  # an answer without a length ends with the connection
        elif error:
            self._end(Outcome.RESET, _name(error), now)
        else:
            self._end(Outcome.TRUNCATED, "the connection was closed within the answer", now)
        self._pool._lost(self)
        del self._parser  # it points back here, and a cycle would wait for the collector


def _name(error: Exception) -> str:
    return str(error) or type(error).__name__
