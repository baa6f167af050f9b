"""Reads what `systemctl show` prints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from spectune.domain.service_state import UnitState

PROPERTIES = (
    "Id", "LoadState", "ActiveState", "SubState", "Result", "UnitFileState", "MainPID", "ExecMainCode",
    "ExecMainStatus", "InvocationID", "NRestarts", "ControlGroup", "FragmentPath", "DropInPaths", "ExecStart",
    "NeedDaemonReload", "ActiveEnterTimestamp", "TimeoutStopUSec", "Description", "Environment",
)  # fmt: skip

_ARGV = re.compile(r"\bargv\[\]=(.*?) ; ignore_errors=")
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d|w|month|y)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SECONDS |= {"month": 2629800.0, "y": 31557600.0}
_EXITED = "1"
_NOT_ENDED = "0"
_LONGEST = 20
"""Digits of the largest number of 64 bits."""


def parse(text: str) -> UnitState:
    """The state; what is not told keeps an empty value. ActiveEnterTimestamp is expected as `--timestamp=unix` gives
    it. Never raises."""
    told: dict[str, str] = {}
    commands: list[str] = []
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if not equals:
            continue
        if name == "ExecStart":
            commands += _ARGV.findall(value)
        told[name] = value
    active = told.get("ActiveState", "")
    return UnitState(
        name=told.get("Id", ""),
        load=told.get("LoadState", ""),
        active=active,
        sub=told.get("SubState", ""),
        result=told.get("Result", "") or "success",
        enabled=told.get("UnitFileState", ""),
        main_pid=whole(told.get("MainPID")),
        exit_code=_exit_code(told),
        invocation=told.get("InvocationID", ""),
        restarts=whole(told.get("NRestarts")),
        control_group=told.get("ControlGroup", ""),
        fragment=told.get("FragmentPath", ""),
        drop_ins=_words(told.get("DropInPaths", "")),
        exec_start=tuple(commands),
        needs_reload=told.get("NeedDaemonReload") == "yes",
        active_since=_unix(told.get("ActiveEnterTimestamp", "")) if active == "active" else None,
        stop_timeout_s=seconds(told.get("TimeoutStopUSec", "")),
        description=told.get("Description", ""),
        environment=_variables(told.get("Environment", "")),
    )


def seconds(span: str) -> float | None:
    """A time span as systemd prints it ("1min 30s"); None for "infinity" and what can't be read."""
    parts = _PART.findall(span)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts) if parts else None


def _exit_code(told: Mapping[str, str]) -> int | None:
    """ExecMainCode is a CLD_ number of the kernel: 1 for an exit, others for a signal."""
    how = told.get("ExecMainCode", _NOT_ENDED)
    if how in {_NOT_ENDED, ""}:
        return None
    status = whole(told.get("ExecMainStatus"))
    return status if how == _EXITED else -status


def whole(text: str | None) -> int:
    """A number of the kernel's as it prints them; 0 for anything else."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= _LONGEST else 0


def _unix(text: str) -> float | None:
    number = text.removeprefix("@")
    try:
        return float(number)
    except ValueError:
        return None


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())


def _variables(text: str) -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in _words(text) if "=" in word)
