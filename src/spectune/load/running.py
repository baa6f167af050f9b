"""Runs the load of one cell, in this process or in several."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass

from spectune.domain.errors import InputError
from spectune.domain.workload import Cell, LevelKind, Prompt
from spectune.load.arrivals import Due, due_times
from spectune.load.body import Sender, Server
from spectune.load.closed_loop import ClosedLoop
from spectune.load.course import Course
from spectune.load.dealer import Dealer
from spectune.load.open_loop import OpenLoop
from spectune.load.options import Options
from spectune.load.pools import pool_for
from spectune.load.processes import Fleet, processes_for
from spectune.load.quiet import connections_allowed, rare_collections, until_done
from spectune.load.record import Recorded
from spectune.load.shares import Shares
from spectune.load.watch import Watched, watched
from spectune.load.window import Listener, Window
from spectune.load.worker import Job

_OPEN_AHEAD = 64
_PROMPTS_AHEAD = 64
_START_IN_NS = 5_000_000


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be loaded, and how.

    Attributes:
        seconds: of the window, unless its listener has heard enough before.
        cores: usable ones of this machine.
    """

    server: Server
    cell: Cell
    prompts: Iterator[Prompt]
    seconds: float
    listener: Listener
    options: Options
    cores: int


@dataclass(frozen=True, slots=True)
class Run:
    """What the load brings home.

    Attributes:
        recorded: all requests, in the order in which they ended.
        window: when requests counted.
        stopped: why it closed, in words.
        lost: the server stopped answering.
        thought: (from, to) of every pause between turns of a session, ns.
        watched: the worst of all processes.
        overflowed, cut_off: see Facts.
    """

    recorded: list[Recorded]
    window: Window
    stopped: str
    lost: bool
    thought: list[tuple[int, int]]
    watched: Watched
    overflowed: bool = False
    cut_off: int = 0


def load(task: Task) -> Run:
    """Loads the server until the limits are reached.

    Raises:
        InputError: the level or its prompts make no schedule, a prompt cannot be sent, or there are too few open files.
        HostError: one of several processes died.
    """
    level, options = task.cell.level, task.options
    is_open = level.kind is LevelKind.RATE
    due = due_times(level, task.seconds, task.cell.sampling.seed or 0) if is_open else None
    most = connections_allowed(options.most_in_flight if is_open else level.users)
    if not is_open and most < level.users:
        raise InputError(
            f"{level.users} users need as many open files, and this process may have {most}",
            f"Allow more before starting: ulimit -n {2 * level.users}",
        )
    processes = min(_processes(task), most)
    if processes > 1:
        pool_for(task.server, 0, options)  # a wrong URL is told here
        return _together(task, due, most, processes)
    with rare_collections():
        return until_done(_alone(task, due, most))


def _processes(task: Task) -> int:
    """How many processes; one where the options hold what cannot be sent to another."""
    options = task.options
    try:
        pickle.dumps(options)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        if (options.processes or 1) > 1:
            raise InputError(
                f"TLS settings and this tokenizer cannot be shared by {options.processes} processes: {error}",
                "Use one process, or a tokenizer that is a function of a module.",
            ) from error
        return 1
    return max(1, options.processes or processes_for(task.cell.level, task.cores))


async def _alone(task: Task, due: Due | None, most: int) -> Run:
    course = Course(task.seconds, task.listener, task.options.tokenizer)
    dealer = Dealer(task.prompts)
    async with pool_for(task.server, min(most, _OPEN_AHEAD) if due else most, task.options) as pool:
        sender = Sender(pool, task.server, task.cell.sampling, task.options.api)
        if due is None:
            seen = await watched(ClosedLoop(most, course, dealer, sender).run(), pool)
            return Run(course.recorded, course.window, course.stopped, course.lost, course.thought, seen)
        start_ns = time.perf_counter_ns() + _START_IN_NS
        arrivals = OpenLoop(task.cell.level, course, due, dealer, sender, most, start_ns, task.seconds)
        seen = await watched(arrivals.run(), pool)
    return Run(
        course.recorded, course.window, course.stopped, course.lost, course.thought, seen,
        arrivals.overflowed, arrivals.cut_off,
    )  # fmt: skip


def _together(task: Task, due: Due | None, most: int, processes: int) -> Run:
    """The same by several processes, whose shares add up to the whole."""
    shares = [most // processes + (number < most % processes) for number in range(processes)]
    jobs = [
        Job(
            number, processes, task.server, task.cell, task.seconds, share,
            min(share, _OPEN_AHEAD) if due else share, task.options,
        )
        for number, share in enumerate(shares)
    ]  # fmt: skip
    at_once = _PROMPTS_AHEAD if due else 2 * shares[0] + _PROMPTS_AHEAD
    done = Fleet(jobs, Shares(task.prompts, processes, at_once, due), task.seconds, task.listener).run()
    watched_by = [result.watched for result in done.results]
    return Run(
        recorded=sorted((r for result in done.results for r in result.recorded), key=lambda r: r.record.end_ns),
        window=Window(done.opened_ns, done.closed_ns),
        stopped=done.stopped,
        lost=done.lost,
        thought=[span for result in done.results for span in result.thought],
        watched=Watched(
            (max(w.lag_s[0] for w in watched_by), max(w.lag_s[1] for w in watched_by)),
            max(w.cpu_share for w in watched_by),
        ),
        overflowed=any(result.overflowed for result in done.results),
        cut_off=sum(result.cut_off for result in done.results),
    )
