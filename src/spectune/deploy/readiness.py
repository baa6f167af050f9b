"""Readiness: waiting for a server, and telling crashed from slow from somebody else's."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from spectune.deploy.guarded import Guarded
from spectune.deploy.listeners import Place, owner, port_taken
from spectune.deploy.logs import LogFile, disk_full
from spectune.deploy.pages import Pages
from spectune.domain.deployment import Launch, ListenerOwner
from spectune.domain.errors import EngineFailure, FailureKind, SpectuneError
from spectune.domain.ports import Clock

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.25
_GROWTH = 1.3
_LONGEST_ANSWER_S = 10.0
HARD_CAP = 6.0


@dataclass(slots=True)
class _Seen:
    """What the last looks showed."""

    log_size: int = 0
    progress_at: float = 0.0
    listener: ListenerOwner = ListenerOwner.NONE
    status: int = 0


def await_ready(
    launch: Launch, place: Place, server: Guarded, log: LogFile, pages: Pages, clock: Clock
) -> tuple[float, float]:
    """Waits until the server answers 200 on the launch's ready path, from a socket of its own.

    Returns:
        Seconds it took, and the moment it began (seconds since the epoch).

    Raises:
        PortTaken: when another program took the port meanwhile.
        EngineFailure: EXITED; NEVER_READY after `ready_timeout_s` without a new byte in the log, or six times that.
        HostError: when the server exited because the disk is full.
    """
    started, started_unix = clock.monotonic(), clock.now()
    seen = _Seen(progress_at=started)
    pause = FIRST_PAUSE_S
    while True:
        code = server.poll()
        seen.listener = owner(place, server.pids)
        if seen.listener is ListenerOwner.FOREIGN:
            raise port_taken(place)
        if code is not None:
            raise exited(launch, code, clock.monotonic() - started, log)
        deadline = _deadline(launch, started, seen, log, clock)
        if seen.listener is not ListenerOwner.NONE:
            left = max(LONGEST_PAUSE_S, deadline - clock.monotonic())
            seen.status = pages.get(launch.ready_path, min(left, _LONGEST_ANSWER_S)).status
            if seen.status == 200:
                return clock.monotonic() - started, started_unix
        if clock.monotonic() > deadline:
            raise _never_ready(launch, seen, started, clock.monotonic(), log)
        clock.sleep(pause)
        pause = min(LONGEST_PAUSE_S, pause * _GROWTH)


def exited(launch: Launch, code: int, after_s: float, log: LogFile) -> SpectuneError:
    """The error for a server that ended by itself."""
    if log.disk_full():
        return disk_full(log.path.parent)
    return EngineFailure(
        FailureKind.EXITED,
        f"{launch.argv[0]} {ending(code)} {after_s:.1f} s after its start",
        f"Its log: {log.path}",
        log.tail(),
    )


def ending(code: int) -> str:
    """An exit code in words; negative codes are signals."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _deadline(launch: Launch, started: float, seen: _Seen, log: LogFile, clock: Clock) -> float:
    """When to give up, if nothing new comes."""
    size = log.size()
    if size != seen.log_size:
        seen.log_size, seen.progress_at = size, clock.monotonic()
    return min(seen.progress_at + launch.ready_timeout_s, started + HARD_CAP * launch.ready_timeout_s)


def _never_ready(launch: Launch, seen: _Seen, started: float, now: float, log: LogFile) -> EngineFailure:
    if seen.listener is ListenerOwner.NONE:
        state = f"it does not listen on {launch.url}"
    elif seen.status:
        state = f"{launch.ready_path} answers {seen.status}"
    else:
        state = f"it listens on {launch.url} but {launch.ready_path} does not answer"
    quiet = now - seen.progress_at >= launch.ready_timeout_s
    why = f"without a new log line for {launch.ready_timeout_s:g} s" if quiet else "though its log still grew"
    return EngineFailure(
        FailureKind.NEVER_READY,
        f"{launch.argv[0]} did not get ready in {now - started:.1f} s, {why}: {state}",
        f"Raise ready_timeout_s if this model takes longer to load. Its log: {log.path}",
        log.tail(),
    )
