"""Knobs: the tunable settings of an engine, in the engine's own spelling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

KnobValue = bool | int | float | str
"""A setting as given on an engine's command line. A flag without a value is True."""

Settings = Mapping[str, KnobValue]
"""Knob name -> value. Treated as immutable everywhere."""


class KnobKind(StrEnum):
    SWITCH = "switch"
    INTEGER = "integer"
    NUMBER = "number"
    CHOICE = "choice"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting of an engine.

    Attributes:
        name: the canonical long flag without leading dashes, as the engine spells it ("spec-draft-n-max").
        kind: what values it takes.
        default: the engine's own default, None when the engine decides at start.
        low, high: inclusive bounds of a number, None when open.
        choices: allowed words of a CHOICE.
        restart: whether changing it needs a restart of the server.
        aliases: other spellings the engine accepts for the same flag, without leading dashes.
        about: one line for people.
    """

    name: str
    kind: KnobKind
    default: KnobValue | None = None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    restart: bool = True
    aliases: tuple[str, ...] = ()
    about: str = ""
