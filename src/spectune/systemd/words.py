"""How a service ended or failed to come up, in words, from systemd's state and its own log."""

from __future__ import annotations

import re
import signal

from spectune.domain.errors import EngineFailure, FailureKind, HostError, SpectuneError
from spectune.domain.service_state import UnitState
from spectune.systemd.unit import ManagedUnit

TAIL = 4000
NOT_EXECUTED = 203
_SETUP = range(200, 250)
_ENDED = re.compile(r"Main process exited, code=(\w+), status=(\d+)/")
_ABOUT = (
    r"(?:Start(?:ing|ed)|Stop(?:ping|ped)|Finished|Reload(?:ing|ed)|Failed to start)"
    r" (?:{unit}|{about})(?: - .*)?\.{{1,3}}"
)


def output_of(log: str, state: UnitState) -> str:
    """What the service's own processes wrote: the journal of a start without systemd's lines about the unit."""
    about = re.compile(
        _ABOUT.format(unit=re.escape(state.name), about=re.escape(state.description or state.name))
        + rf"|{re.escape(state.name)}: .*"
    )
    return "".join(line for line in log.splitlines(keepends=True) if not about.fullmatch(line.rstrip("\n")))


def exit_code(state: UnitState, log: str, invocation: str) -> int | None:
    """How the main process of one start ended: negative for a signal; None while it runs or where nobody can tell.

    systemd forgets it as soon as it has started the service again; its log line remains.
    """
    if state.invocation == invocation and state.exit_code is not None and state.active != "active":
        return state.exit_code
    ended = _ENDED.findall(log)
    if not ended:
        return None
    how, status = ended[0]
    return int(status) if how == "exited" else -int(status)


def ending(code: int | None) -> str:
    """An exit code in words."""
    if code is None:
        return "ended"
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def failure(unit: ManagedUnit, state: UnitState, code: int | None, after_s: float, log: str) -> SpectuneError:
    """Why a start came to nothing.

    Args:
        log: the journal of this start.
    """
    tail = output_of(log, state)[-TAIL:]
    see = f"See on {unit.where}: journalctl {'--user ' if unit.user else ''}-u {unit.name}"
    if state.result == "start-limit-hit":
        return HostError(f"systemd has started {unit.name} too often in a short time and starts it no more", see)
    if code == NOT_EXECUTED:
        said = next((line for line in log.splitlines() if "No such file" in line or "Permission denied" in line), "")
        said = said.removeprefix(f"{unit.name}: ")
        return HostError(f"{unit.name} on {unit.where} can't start its program: {said or 'exec failed'}", see)
    if code in _SETUP and state.result == "exit-code" and not tail.strip():
        return HostError(
            f"systemd can't set up {unit.name} on {unit.where}: step {code} failed (systemd.exec, EXIT CODES)", see
        )
    if state.result == "timeout":
        return EngineFailure(
            FailureKind.NEVER_READY,
            f"systemd gave up on {unit.name} {after_s:.1f} s after its start (TimeoutStartSec)",
            "Raise TimeoutStartSec in the unit: this model takes longer to load.",
            tail,
        )
    why = {"oom-kill": ": the host ran out of memory", "watchdog": ": its watchdog did not hear from it"}
    again = "; systemd starts it again and again" if state.restarts > 1 else ""
    return EngineFailure(
        FailureKind.EXITED,
        f"{unit.name} {ending(code)} {after_s:.1f} s after its start{why.get(state.result, '')}{again}",
        see,
        tail,
    )
