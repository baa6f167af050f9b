"""Several processes that load one server together, where one core is not enough.

Each has its share of the users, or of the arrivals, and an event loop of its own; they share nothing but a board with
the moments at which the window opens and closes. What they have seen is put together here: all stamps are of one clock.
"""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from time import perf_counter_ns
from typing import Any

from spectune.domain.errors import HostError
from spectune.domain.workload import Arrival, Level, LevelKind
from spectune.load import board as boards
from spectune.load.board import Board
from spectune.load.shares import Shares
from spectune.load.window import Listener
from spectune.load.worker import Closing, Done, Failed, Job, Prompts, Result, Want

_PER_PROCESS = 200
_MOST = 8
_TURN_S = 0.01
_START_IN_NS = 50_000_000
_QUIET_NS = 50_000_000
_READY_WITHIN_NS = 60_000_000_000


def processes_for(level: Level, cores: int) -> int:
    """How many processes a level needs, as far as it can be told ahead.

    A chunk costs 8 to 15 us, so that 70 % of a core are some 47,000 chunks per second: more than 200 users of 200
    chunks per second each, or 200 arrivals per second of 200 tokens. Half of the cores are left to others.
    """
    if level.arrival is Arrival.TRACE and level.kind is LevelKind.RATE:
        return 1
    return max(1, min(math.ceil(level.value / _PER_PROCESS), cores // 2, _MOST))


@dataclass(frozen=True, slots=True)
class Together:
    """What came of it.

    Attributes:
        opened_ns, closed_ns: the common window.
        stopped: why it closed.
        lost: the server stopped answering.
        results: one of each process.
    """

    opened_ns: int
    closed_ns: int
    stopped: str
    lost: bool
    results: tuple[Result, ...]


@dataclass(slots=True)
class _Worker:
    number: int
    process: subprocess.Popen[bytes]
    connection: Connection[Any, Any]
    errors: Any
    result: Result | None = None


class Fleet:
    """Worker processes for one measurement; `run` once."""

    def __init__(self, jobs: list[Job], shares: Shares, seconds: float, listener: Listener) -> None:
        self._jobs = jobs
        self._shares = shares
        self._seconds = seconds
        self._listener = listener
        self._level = jobs[0].cell.level
        self._workers: list[_Worker] = []
        self._ran_out: set[int] = set()
        self._nothing_counts_since: int | None = None
        self._stopped = ""

    def run(self) -> Together:
        """Returns when all processes have ended.

        Raises:
            HostError: one of them died, or cannot be started.
            InputError: the prompts make no schedule, or one cannot be sent.
        """
        self._board = Board(len(self._jobs))
        try:
            for job in self._jobs:
                self._workers.append(_start(job, self._board))
            self._begin()
            while not all(worker.result for worker in self._workers):
                self._turn()
                self._direct()
            board = self._board
            return Together(
                board.common(boards.OPENED),
                board.common(boards.CLOSED),
                self._stopped,
                any(board.all_own(boards.LOST)),
                tuple(worker.result for worker in self._workers if worker.result),
            )
        finally:
            for worker in self._workers:
                _end(worker)
            self._board.close()

    def _begin(self) -> None:
        """Lets all begin at the same moment, once all are connected."""
        board, called_ns = self._board, perf_counter_ns()
        while not all(board.all_own(boards.READY)):
            self._turn()
            if perf_counter_ns() - called_ns > _READY_WITHIN_NS:
                raise HostError("the processes of the load generator did not get ready within a minute")
        start_ns = perf_counter_ns() + _START_IN_NS
        board.set_common(boards.START, start_ns)
        if self._level.kind is LevelKind.RATE and self._level.arrival is Arrival.RAMP:
            board.set_common(boards.OPENED, start_ns)

    def _turn(self) -> None:
        """Hears what the workers say."""
        open_ones = {worker.connection: worker for worker in self._workers if not worker.result}
        for connection in wait(list(open_ones), _TURN_S):
            worker = open_ones[connection]  # type: ignore[index]
            try:
                self._hear(worker, worker.connection.recv())
            except (EOFError, ConnectionResetError, BrokenPipeError) as error:
                raise _death(worker, len(self._jobs)) from error

    def _hear(self, worker: _Worker, said: object) -> None:
        match said:
            case Want():
                prompts, are_all = self._shares.more(worker.number)
                worker.connection.send(Prompts(prompts, are_all))
            case Done(records):
                for record in records:
                    self._listener.add(record)
            case Closing(why):
                self._ran_out.add(worker.number)
                # In an open loop others may have arrivals left.
                if why != "prompts ran out" or self._level.kind is LevelKind.CONCURRENCY or self._all_ran_out():
                    self._close(why)
            case Failed(error):
                raise error
            case Result():
                worker.result = said

    def _all_ran_out(self) -> bool:
        return len(self._ran_out) == len(self._jobs)

    def _direct(self) -> None:
        """Opens and closes the window, and ends everything once nothing that counts is in flight."""
        board, now = self._board, perf_counter_ns()
        if not board.common(boards.OPENED) and all(board.all_own(boards.WARM)):
            board.set_common(boards.OPENED, now)
        opened_ns = board.common(boards.OPENED)
        if opened_ns and not board.common(boards.CLOSED):
            if now - opened_ns >= self._seconds * 1e9:
                self._close("time is up")
            elif self._listener.is_enough():
                self._close("precise enough")
        if not board.common(boards.CLOSED):
            return
        if any(board.all_own(boards.COUNTED)):
            self._nothing_counts_since = None
        else:
            self._nothing_counts_since = self._nothing_counts_since or now
        # A worker may just be about to count a request that it began before the window closed.
        quiet = self._nothing_counts_since is not None and now - self._nothing_counts_since >= _QUIET_NS
        if quiet or any(board.all_own(boards.LOST)):
            board.set_common(boards.OVER, now)

    def _close(self, why: str) -> None:
        board, now = self._board, perf_counter_ns()
        if not board.common(boards.CLOSED):
            if not board.common(boards.OPENED):
                board.set_common(boards.OPENED, now)
            board.set_common(boards.CLOSED, now)
            self._stopped = why


def _start(job: Job, board: Board) -> _Worker:
    ours, theirs = socket.socketpair()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
    # Not with -m: what the module says would be said by __main__, and not understood here.
    program = f"from spectune.load.worker import main; main({theirs.fileno()}, {board.fd})"
    command = [sys.executable, "-c", program]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        process = subprocess.Popen(
            command, pass_fds=(theirs.fileno(), board.fd), stdin=subprocess.DEVNULL, stderr=errors, env=env
        )
    except OSError as error:
        ours.close()
        errors.close()
        raise HostError(f"cannot start a process of the load generator: {error}") from error
    finally:
        theirs.close()
    worker = _Worker(job.number, process, Connection(ours.detach()), errors)
    with suppress(BrokenPipeError, ConnectionResetError):  # it is found dead when it is listened to
        worker.connection.send(job)
    return worker


def _end(worker: _Worker) -> None:
    worker.connection.close()
    if worker.result is None:
        worker.process.kill()
    worker.process.wait()
    worker.errors.close()


def _death(worker: _Worker, workers: int) -> HostError:
    with suppress(subprocess.TimeoutExpired):
        worker.process.wait(2)
    worker.errors.seek(0)
    lines = worker.errors.read().decode(errors="replace").strip().splitlines()
    last = f": {lines[-1]}" if lines else ""
    code = worker.process.returncode
    return HostError(
        f"process {worker.number + 1} of {workers} of the load generator died (exit code {code}){last}",
        "It may have run out of memory, or been killed. Nothing was measured; try again, or use fewer processes.",
    )
