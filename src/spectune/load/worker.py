"""One process of several that load a server: its share of the users or arrivals, on an event loop of its own.

It ends when the process that started it says so, or is gone.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Protocol

from spectune.domain.errors import SpectuneError
from spectune.domain.measurement import Outcome, Phase, RequestRecord
from spectune.domain.workload import Cell, LevelKind, Prompt
from spectune.load import board as boards
from spectune.load.board import Board
from spectune.load.body import Sender, Server
from spectune.load.closed_loop import ClosedLoop
from spectune.load.course import Course
from spectune.load.dealer import Dealer
from spectune.load.open_loop import OpenLoop
from spectune.load.options import Options
from spectune.load.pools import pool_for
from spectune.load.quiet import rare_collections, until_done
from spectune.load.record import Recorded
from spectune.load.watch import Watched, watched
from spectune.load.window import Deaf

_LOOK_S = 0.01
_REPORT_S = 0.1


@dataclass(frozen=True, slots=True)
class Job:
    """The share of one worker. `users` of a closed loop, or the most in flight of an open one."""

    number: int
    workers: int
    server: Server
    cell: Cell
    seconds: float
    users: int
    connections: int
    options: Options


@dataclass(frozen=True, slots=True)
class Want:
    """Asks for more prompts."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts for a worker; in an open loop due_s is when they are to leave, seconds from the start."""

    prompts: list[Prompt]
    are_all: bool


@dataclass(frozen=True, slots=True)
class Done:
    """Requests that count and were served since the last report."""

    records: list[RequestRecord]


@dataclass(frozen=True, slots=True)
class Closing:
    """A worker cannot go on measuring, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker ends without a result."""

    error: SpectuneError


@dataclass(frozen=True, slots=True)
class Result:
    """All that a worker has seen."""

    recorded: list[Recorded]
    thought: list[tuple[int, int]]
    watched: Watched
    overflowed: bool
    cut_off: int


class Source(Protocol):
    """Where a Supply gets its prompts."""

    def send(self, want: Want, /) -> None: ...

    def recv(self) -> Prompts: ...


class Supply(Iterator[Prompt]):
    """The prompts of one worker: asks for more in time, and waits for them only if they come late.

    A thread receives them, so that neither side ever waits for the other one to read. If nobody is there any more to
    send, this process ends.
    """

    def __init__(self, source: Source, first: Prompts | None = None) -> None:
        self._source = source
        self._received: SimpleQueue[Prompts] = SimpleQueue()
        self._prompts: deque[Prompt] = deque()
        self._are_all = False
        self._asked = False
        self._enough = 0
        if first is not None:
            self._take(first)
        threading.Thread(target=self._receive, daemon=True).start()

    def __next__(self) -> Prompt:
        if len(self._prompts) <= self._enough // 2 and not self._asked and not self._are_all:
            self._source.send(Want())
            self._asked = True
        while not self._received.empty() or not (self._prompts or self._are_all):
            self._take(self._received.get())
        if not self._prompts:
            raise StopIteration
        return self._prompts.popleft()

    def _take(self, more: Prompts) -> None:
        self._prompts.extend(more.prompts)
        self._enough = max(self._enough, len(more.prompts))
        self._are_all = more.are_all
        self._asked = False

    def _receive(self) -> None:
        try:
            while True:
                self._received.put(self._source.recv())
        except (EOFError, OSError):
            os._exit(1)


class SharedCourse(Course):
    """A course whose window is everybody's: it opens, closes and ends when the board says so."""

    def __init__(self, job: Job, board: Board, connection: Connection[Any, Any]) -> None:
        super().__init__(math.inf, Deaf(), job.options.tokenizer)
        self._number = job.number
        self._board = board
        self._connection = connection
        self._reported = 0

    def open(self) -> None:
        self._board.set_own(self._number, boards.WARM, 1)

    def close(self, why: str) -> None:
        if not self.stopped:
            self.stopped = why
            self._board.set_own(self._number, boards.LOST, int(self.lost))
            self._connection.send(Closing(why))

    def phase(self) -> Phase:
        if not self._board.common(boards.OPENED):
            return Phase.WARMUP
        return Phase.DRAIN if self._board.common(boards.CLOSED) else Phase.STEADY

    def _count(self, change: int) -> None:
        super()._count(change)
        self._board.set_own(self._number, boards.COUNTED, self.counted)

    def _look_whether_settled(self) -> None:
        if self._board.common(boards.OVER):
            self.settled.set()

    async def report(self) -> None:
        """Tells of what has been served, and looks whether all is over."""
        while True:
            for _ in range(round(_REPORT_S / _LOOK_S)):
                await asyncio.sleep(_LOOK_S)
                self._look_whether_settled()
            fresh = [r.record for r in self.recorded[self._reported :]]
            self._reported += len(fresh)
            served = [r for r in fresh if r.phase is Phase.STEADY and r.outcome is Outcome.OK]
            if served:
                self._connection.send(Done(served))


async def _work(job: Job, board: Board, connection: Connection[Any, Any]) -> Result:
    options, level = job.options, job.cell.level
    course = SharedCourse(job, board, connection)
    supply = Supply(connection)
    dealer = Dealer(supply)
    server = job.server
    async with pool_for(server, job.connections, options) as pool:
        sender = Sender(pool, server, job.cell.sampling, options.api)
        board.set_own(job.number, boards.READY, 1)
        while not board.common(boards.START):
            await asyncio.sleep(_LOOK_S)
        reporter = asyncio.create_task(course.report())
        try:
            if level.kind is LevelKind.CONCURRENCY:
                seen = await watched(ClosedLoop(job.users, course, dealer, sender).run(), pool)
                return Result(course.recorded, course.thought, seen, False, 0)
            start_ns = board.common(boards.START)
            load = OpenLoop(
                level, course, lambda prompt: prompt.due_s or 0.0, dealer, sender, job.users, start_ns, job.seconds
            )
            seen = await watched(load.run(), pool)
            return Result(course.recorded, course.thought, seen, load.overflowed, load.cut_off)
        finally:
            reporter.cancel()


def main(connection_fd: int, board_fd: int) -> None:
    """Does the job that comes over the connection and sends back its result.

    Takes two inherited descriptors: the connection to the process that started this one, and the board.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    connection: Connection[Any, Any] = Connection(connection_fd)
    try:
        job: Job = connection.recv()
        board = Board(job.workers, board_fd)
        with rare_collections():
            try:
                connection.send(until_done(_work(job, board, connection)))
            except SpectuneError as error:
                connection.send(Failed(error))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        sys.exit(1)  # nobody is there any more
