"""What no server would start with, and what none would heed."""

from __future__ import annotations

from typing import NoReturn

from spectune.domain.candidate import Speculation
from spectune.domain.errors import InputError
from spectune.domain.knobs import Settings


def refuse(where: str, message: str, advice: str = "") -> NoReturn:
    """Raises an InputError that names the place."""
    raise InputError(f"{where}: {message}", advice)


def check_port(port: int) -> None:
    """Refuses a port that no server can listen on.

    Raises:
        InputError: naming the port.
    """
    if not 1 <= port <= 65535:
        raise InputError(f"service.port must be 1 to 65535 at launch, got {port}")


def check_none(speculation: Speculation, settings: Settings, where: str) -> None:
    """Refuses what says something of speculation where there is no method.

    Raises:
        InputError: naming depth and draft model, or the setting.
    """
    if speculation.depth or speculation.draft_model:
        refuse(where, "without a method there is no depth and no draft model", "Name a method, or set depth to 0.")
    for name in settings:
        refuse(where, f"'{name}' would be silently ignored without a speculation method", "Remove it or name a method.")
