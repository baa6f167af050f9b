"""What one HTTP exchange is made of: the request as bytes, its limits, and the record of what came back."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import repeat
from typing import overload
from urllib.parse import SplitResult, urlsplit

from spectune.load.sse import Piece


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


class Pieces(Sequence[Piece]):
    """What a connection recorded: each body with the time of the read that brought it, put together at the first look.

    An exchange ends when others are waiting for their stamps, often hundreds at the same moment.
    """

    def __init__(self, bodies: list[bytes], stamps: array[int], stops: list[int]) -> None:
        """Takes all bodies, and of every read its stamp and how many bodies there were after it."""
        self._recorded = (bodies, stamps, stops)
        self._columns: tuple[array[int], list[bytes]] | None = None

    def columns(self) -> tuple[array[int], list[bytes]]:
        """All stamps, and the bytes that belong to each. Pairs would be an object a piece."""
        if self._columns is None:
            bodies, stamps, stops = self._recorded
            # Of a paced stream every read is one body, but for the last, which holds the end as well.
            single = len(stops) - 1
            start = single = single if single > 0 and stops[:single] == list(range(1, single + 1)) else 0
            kept = stamps[:single]
            for stamp, stop in zip(stamps[single:], stops[single:], strict=True):
                kept.extend(repeat(stamp, stop - start))
                start = stop
            self._columns = (kept, bodies[:start])  # a read that was no HTTP may have brought some
            self._recorded = ([], array("q"), [])
        return self._columns

    @overload
    def __getitem__(self, index: int) -> Piece: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Piece, ...]: ...
    def __getitem__(self, index: int | slice) -> Piece | tuple[Piece, ...]:
        stamps, datas = self.columns()
        if isinstance(index, slice):
            return tuple(zip(stamps[index], datas[index], strict=True))
        return stamps[index], datas[index]

    def __len__(self) -> int:
        return len(self.columns()[0])

    def __iter__(self) -> Iterator[Piece]:
        return zip(*self.columns(), strict=True)

    def __repr__(self) -> str:
        return repr(self[:])


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
