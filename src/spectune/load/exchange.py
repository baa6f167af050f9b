"""What one HTTP exchange is made of: the request as bytes, its limits, and the record of what came back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from time import perf_counter_ns
from typing import Protocol, Self, TypeVar
from urllib.parse import SplitResult, urlsplit

from spectune.load.sse import Piece

T = TypeVar("T")

_OPENING_AT_ONCE = 16


class Outcome(StrEnum):
    """How an exchange ended, as far as HTTP can tell; whether the stream inside was whole is for its parser to say."""

    COMPLETE = "complete"  # a 2xx answer, up to its end
    HTTP_ERROR = "http-error"  # any other status; the pieces hold what there was of the body
    PROTOCOL_ERROR = "protocol-error"  # the peer does not speak HTTP/1.1, or answered more than was asked
    CONNECT_FAILED = "connect-failed"  # refused, unresolvable, or a TLS failure
    RESET = "reset"  # the connection broke, or was closed before any answer
    TRUNCATED = "truncated"  # the connection was closed in an orderly way within the answer
    TIMED_OUT_CONNECT = "timeout-connect"
    TIMED_OUT_FIRST = "timeout-first-token"
    TIMED_OUT_IDLE = "timeout-idle"
    CANCELLED = "cancelled"  # ended by this side


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits of one exchange in seconds, kept to within 50 ms.

    Attributes:
        connect_s: for opening a connection, TLS included.
        first_byte_s: from the request to the first byte of the body; early headers do not stop it.
        idle_s: between two pieces of the body.
    """

    connect_s: float = 10.0
    first_byte_s: float = 120.0
    idle_s: float = 60.0

    def words(self, outcome: Outcome) -> str:
        """What it means that an exchange ended by one of these limits."""
        match outcome:
            case Outcome.TIMED_OUT_CONNECT:
                return f"no connection after {self.connect_s:g} s"
            case Outcome.TIMED_OUT_FIRST:
                return f"no answer after {self.first_byte_s:g} s"
            case Outcome.TIMED_OUT_IDLE:
                return f"nothing for {self.idle_s:g} s within the answer"
            case _:
                return ""


@dataclass(frozen=True, slots=True)
class RawExchange:
    """One request and what came back.

    Attributes:
        outcome: how it ended.
        status: HTTP status, None where no answer began.
        sent_ns: immediately before the system call that hands the request to the kernel, or, where a plain socket does
            not take all of it at once, when it has taken the rest. 0 where nothing was written.
        pieces: the body as HTTP cut it, (arrival in ns, bytes). Where it is cut says nothing about events.
        end_ns: when the end of the answer, or what came in its place, was seen.
        detail: what went wrong, for people.
    """

    outcome: Outcome
    status: int | None
    sent_ns: int
    pieces: Sequence[Piece]
    end_ns: int
    detail: str = ""


class Pool(Protocol):
    """Keep-alive connections to one server; an async context manager that opens them ahead.

    An exchange takes an idle connection, or opens one more: a pool never lets a request wait, which would hide how late
    the generator is. `opened` counts connections; above the size of the pool, some exchanges had to connect first.
    """

    opened: int

    @property
    def lag_s(self) -> tuple[float, float] | None:
        """How late stamps may be, mean and most so far in seconds; None where they are as late as the event loop is."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def exchange(self, request: bytes) -> RawExchange:
        """Writes an encoded request and returns what came of it; nothing that the network or the server does raises.

        A connection that the server closed while it was idle is replaced before anything is written on it; nothing is
        ever sent twice. Cancelling the calling task closes the connection.
        """

    def cancel(self) -> int:
        """Ends all exchanges in flight as CANCELLED, with what they have received, and returns how many there were."""


async def open_ahead(connect: Callable[[], Awaitable[T]], idle: list[T], size: int) -> int:
    """Connects until so many connections are idle, and returns how many are.

    What cannot be opened is left to the exchange that needs it, which tells why.
    """
    # A server with a short accept queue drops a flood of connections, and each of them tries again after 1 s.
    turns = asyncio.Semaphore(_OPENING_AT_ONCE)

    async def one() -> None:
        async with turns:
            idle.append(await connect())

    await asyncio.gather(*(one() for _ in range(size - len(idle))), return_exceptions=True)
    return len(idle)


def not_connected(error: OSError | UnicodeError, timeouts: Timeouts) -> RawExchange:
    """The exchange that could not begin."""
    timed_out = isinstance(error, TimeoutError)
    outcome = Outcome.TIMED_OUT_CONNECT if timed_out else Outcome.CONNECT_FAILED
    detail = str(error) or (timeouts.words(outcome) if timed_out else type(error).__name__)
    return RawExchange(outcome, None, 0, (), perf_counter_ns(), detail)


def judged(status: int | None) -> tuple[Outcome, str]:
    """What an answer with this status is, and in words what is wrong with it."""
    if status is not None and 200 <= status < 300:
        return Outcome.COMPLETE, ""
    phrases = [known.phrase for known in HTTPStatus if known == status]
    return Outcome.HTTP_ERROR, " ".join(["HTTP", str(status), *phrases])


def encode_request(url: str, path: str, body: bytes, headers: Mapping[str, str], method: str = "POST") -> bytes:
    """Encodes a whole request for `Pool.exchange`, ahead of its time.

    Args:
        url: of the server; a path in it is put before `path`.
        path: of the endpoint.
        body: JSON, or empty.
        headers: added to Host, Content-Length and Content-Type, or replacing the defaults of the last two.
        method: POST unless said otherwise.

    Raises:
        ValueError: the URL is not http(s)://host[:port], or something would break out of its line.
    """
    return add_body(encode_head(url, path, headers, method), body)


def encode_head(url: str, path: str, headers: Mapping[str, str], method: str = "POST") -> bytes:
    """What all requests with these headers begin with, for `add_body`. Takes and raises the same as encode_request."""
    server = split_url(url)
    fields = {"host": ("Host", server.netloc), "content-type": ("Content-Type", "application/json")}
    fields |= {name.lower(): (name, value.strip()) for name, value in headers.items()}
    fields.pop("content-length", None)
    target = server.path.rstrip("/") + "/" + path.lstrip("/")
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.values())]
    # Values are not quoted in the error: one of them is the API key.
    if " " in target or not all(line.isprintable() for line in lines):
        raise ValueError("a header or the path of the request has a space or a character that HTTP does not allow")
    if not all(name.replace("-", "").replace("_", "").isalnum() for name in fields):
        raise ValueError(f"not a name of an HTTP header, among: {', '.join(headers)}")
    return "\r\n".join(lines).encode() + b"\r\nContent-Length: "


def add_body(head: bytes, body: bytes) -> bytes:
    """A whole request."""
    return b"%b%d\r\n\r\n%b" % (head, len(body), body)


def split_url(url: str) -> SplitResult:
    server = urlsplit(url)
    if server.scheme not in ("http", "https") or not server.hostname or server.username is not None:
        # The URL itself may carry a password.
        raise ValueError(f"expected http(s)://host[:port], got scheme {server.scheme!r} and host {server.hostname!r}")
    return server
