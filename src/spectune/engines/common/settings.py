"""Settings as people write them, checked; and as servers tell them."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping

from spectune.domain.errors import InputError
from spectune.domain.knobs import Knob, KnobKind, KnobValue, Settings

Read = Callable[[str, KnobValue], tuple[str, KnobValue]]
"""(name as written, value) -> (canonical name, checked value); raises InputError."""


def once_each(settings: Settings, where: str, engine: str, exact: bool, read: Read) -> dict[str, KnobValue]:
    """Settings by canonical name.

    Args:
        where: what the settings belong to, for messages ("service.args").
        engine: its name, for messages.
        exact: accept canonical names alone. Candidates are compared, identified and verified by name, so one setting
            must not have two names there.

    Raises:
        InputError: one flag under two spellings, or another than the canonical one; and what `read` raises.
    """
    result: dict[str, KnobValue] = {}
    spelt: dict[str, str] = {}
    for written, value in settings.items():
        name, checked = read(written, value)
        if exact and written != name:
            raise InputError(f"{where}: '{written}' is called '{name}' here", f"Write '{name}'.")
        if name in result:
            raise InputError(
                f"{where}: '{written}' and '{spelt[name]}' set the same {engine} flag", "Keep one of them."
            )
        result[name], spelt[name] = checked, written
    return result


def switched(value: KnobValue, what: str) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}
    state = words.get(str(value).lower())
    if state is None:
        raise InputError(f"{what} is a switch, got '{value}'", "Give true or false.")
    return state


def chosen(knob: Knob, word: str, what: str) -> str:
    if word in knob.choices:
        return word
    near = difflib.get_close_matches(word, knob.choices, n=1)
    advice = f"Did you mean '{near[0]}'?" if near else ""
    raise InputError(f"{what} must be one of {', '.join(knob.choices)}, got '{word}'", advice)


def number(knob: Knob, value: KnobValue, what: str, suffixes: Mapping[str, int]) -> int | float:
    """A number within the knob's bounds.

    Args:
        suffixes: the engine's, of large whole numbers ("k" in "32k" -> 1000).
    """
    text = str(value).strip()
    whole = knob.kind is KnobKind.INTEGER
    found = _whole(text, suffixes) if whole else _finite(text)
    if found is None:
        raise InputError(f"{what} must be {'a whole number' if whole else 'a number'}, got '{value}'")
    if knob.low is not None and found < knob.low:
        raise InputError(f"{what} must be at least {knob.low:g}, got {found}")
    if knob.high is not None and found > knob.high:
        raise InputError(f"{what} must be at most {knob.high:g}, got {found}")
    return found


def _whole(text: str, suffixes: Mapping[str, int]) -> int | None:
    if re.fullmatch(r"[+-]?\d{1,30}", text):
        return int(text)  # a float would round a large one
    suffix = max((end for end in suffixes if text.endswith(end)), key=len, default="")
    found = _finite(text.removesuffix(suffix))
    scaled = None if found is None else found * suffixes.get(suffix, 1)
    return int(scaled) if scaled is not None and scaled.is_integer() else None


def _finite(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def as_setting(value: object, many: bool) -> KnobValue | None:
    """A value that a server tells, as a setting: several in one text; None for what is no setting's value."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (bool, int, float, str)):
        return value
    if many and isinstance(value, list) and value and all(isinstance(item, (int, float, str)) for item in value):
        return " ".join(map(str, value))
    return None
