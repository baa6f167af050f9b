"""What a load generator on another host and its other end here say to each other.

What is sent there are frames, pickles behind their length: prompts need no form of their own, and both ends are the
same spectune. What comes back are lines of JSON, checked as they are read: nothing that a host says is executed here.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from spectune.domain.measurement import RequestRecord
from spectune.domain.workload import Cell
from spectune.load.body import Server
from spectune.load.options import Options
from spectune.load.watch import Watched
from spectune.load.worker import Prompts, Want

_LENGTH = struct.Struct("!Q")


@dataclass(frozen=True, slots=True)
class Order:
    """What to load, and how; see running.Task.

    Attributes:
        insecure: do not check the certificate of https.
        prompts: the first of them.
    """

    server: Server
    cell: Cell
    seconds: float
    options: Options
    cores: int
    insecure: bool
    prompts: Prompts


@dataclass(frozen=True, slots=True)
class Enough:
    """The listener has heard enough."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The load generator is there.

    Attributes:
        fifo: path of the pipe that takes frames.
        version: of its spectune.
        now_ns: its clock.
    """

    fifo: str
    version: str
    now_ns: int


@dataclass(frozen=True, slots=True)
class Served:
    """Requests that count, served since the last line: when sent, tokens, first and last output; a sign of life."""

    requests: list[tuple[int, int | None, int | None, int | None]]


@dataclass(frozen=True, slots=True)
class Told:
    """One request; see Recorded. The first stamp is absolute, each other counts from the one before."""

    record: RequestRecord
    stamps: list[int]
    in_session: bool
    forced: bool


@dataclass(frozen=True, slots=True)
class Thought:
    """Some of the pauses; see Run."""

    spans: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Ended:
    """The rest of a Run; the last line."""

    opened_ns: int
    closed_ns: int
    stopped: str
    lost: bool
    watched: Watched
    overflowed: bool
    cut_off: int


@dataclass(frozen=True, slots=True)
class Refused:
    """It could not be loaded; the last line.

    Attributes:
        is_input: what was asked for is wrong.
    """

    message: str
    advice: str
    is_input: bool


Line = Hello | Want | Served | Told | Thought | Ended | Refused


def frame(order: Order | Prompts | Enough) -> bytes:
    """As `read_frame` reads it.

    Raises:
        TypeError, AttributeError, pickle.PicklingError: it holds something that only lives in this process.
    """
    data = pickle.dumps(order, protocol=4)
    return _LENGTH.pack(len(data)) + data


def read_frame(read: Callable[[int], bytes]) -> object:
    """The next frame; `read` returns that many bytes."""
    (length,) = _LENGTH.unpack(read(_LENGTH.size))
    return pickle.loads(read(length))


def line(said: Line) -> bytes:
    """One line of output."""
    return orjson.dumps({type(said).__name__: said}) + b"\n"
