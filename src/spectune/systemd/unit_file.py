"""Whether the file that holds a unit's command line may be edited, or only overridden."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from spectune.domain.errors import InputError
from spectune.domain.service_state import UnitState
from spectune.systemd.unit import ManagedUnit

_ASK_S = 30.0
_LOOK = 'readlink -f -- "$1" && LC_ALL=C stat -L -c %F -- "$1"'
_OF_PACKAGES = ("/usr/", "/lib/", "/nix/", "/gnu/")
_PLAIN = {"regular file", "regular empty file"}


@dataclass(frozen=True, slots=True)
class UnitFile:
    """A file that may be edited.

    Attributes:
        path: as systemd names it.
        target: what it is a link to; "" where it is none.
    """

    path: str
    target: str = ""


def editable(unit: ManagedUnit, state: UnitState, file: str) -> UnitFile:
    """The file of a unit that holds its command line.

    Args:
        file: the unit's name, or the file name of one of its drop-ins.

    Raises:
        InputError: it must not be edited; with what to do instead.
    """
    path = _path(unit, state, file)
    told = unit.command(["/bin/sh", "-c", _LOOK, "sh", path], f"looking at {path}").text.splitlines()
    real, kind = told[0], told[-1]
    why = _objection(unit, state, path, real, kind)
    if why:
        raise InputError(
            f"{path} on {unit.where} can't be edited: {why}",
            "Let spectune write a drop-in beside it: leave --edit-unit out (service.edit_unit: false).",
        )
    return UnitFile(path, real if real != posixpath.normpath(path) else "")


def _path(unit: ManagedUnit, state: UnitState, file: str) -> str:
    if file == unit.name:
        return state.fragment
    return next(path for path in state.drop_ins if posixpath.basename(path) == file)


def _objection(unit: ManagedUnit, state: UnitState, path: str, real: str, kind: str) -> str:
    """Why a file is left alone; "" where it may be edited."""
    if path == state.fragment:
        if posixpath.basename(path) != unit.name:
            return f"it is the template of all its instances, not of {unit.name} alone"
    elif posixpath.basename(posixpath.dirname(path)) != f"{unit.name}.d":
        return f"it counts for other units than {unit.name} too"
    for place in dict.fromkeys((path, real)):
        what = "it" if place == path else f"it is a link to {place}, which"
        if place.startswith(_OF_PACKAGES):
            return f"{what} belongs to a package, whose next update would bring the old flags back"
        if place.startswith("/run/"):
            return f"{what} is made anew at every boot"
    if unit.user and path.startswith("/etc/"):
        return "it counts for every user of the host"
    return "" if kind in _PLAIN else f"it is no plain file but a {kind}"
