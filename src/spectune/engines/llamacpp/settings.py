"""Settings as people write them, turned into canonical names and values of the right type, or refused."""

from __future__ import annotations

import difflib
import math

from spectune.domain.errors import InputError
from spectune.domain.knobs import Knob, KnobKind, KnobValue, Settings
from spectune.engines.llamacpp.flags import RECORDED
from spectune.engines.llamacpp.knobs import CANONICAL, FLAGS, KNOBS, RENAMED


def canonical(settings: Settings, where: str, exact: bool = False) -> dict[str, KnobValue]:
    """Settings by canonical name, values checked, negations ("no-kv-unified": true) resolved.

    Args:
        settings: as the user wrote them; leading dashes are forgiven.
        where: what the settings belong to, for messages ("service.args").
        exact: accept canonical names alone. Candidates are compared, identified and verified by name, so one setting
            must not have two names there.

    Raises:
        InputError: unknown or removed flag, value of the wrong kind or out of bounds, one flag under two spellings.
    """
    result: dict[str, KnobValue] = {}
    spelt: dict[str, str] = {}
    for written, value in settings.items():
        name, canonical_value = _setting(written, value, where)
        if exact and written != name:
            raise InputError(f"{where}: '{written}' is called '{name}' here", f"Write '{name}'.")
        if name in result:
            raise InputError(
                f"{where}: '{written}' and '{spelt[name]}' are the same llama-server flag", "Keep one of them."
            )
        result[name] = canonical_value
        spelt[name] = written
    return result


def arguments(name: str, value: KnobValue) -> tuple[str, ...]:
    """A canonical setting as command line arguments."""
    flag = FLAGS[name]
    on = f"--{name}" if f"--{name}" in flag.on else flag.on[0]
    if flag.takes == 0:
        if value:
            return (on,)
        return flag.off[:1]
    if flag.takes == 2:
        return (on, *str(value).split())
    return (on, str(value))


def _setting(written: str, value: KnobValue, where: str) -> tuple[str, KnobValue]:
    name = _known(written, where)
    flag = FLAGS[name]
    canonical_name = CANONICAL[name]
    if flag.takes == 0:
        state = _switched(value, where, written)
        return canonical_name, not state if f"--{name}" in flag.off or f"-{name}" in flag.off else state
    knob = KNOBS.get(canonical_name, Knob(canonical_name, KnobKind.TEXT))
    if flag.takes == 2 and len(str(value).split()) != 2:
        raise InputError(f"{where}: '{written}' takes two values, separated by a space")
    return canonical_name, _valued(knob, value, f"{where}: '{written}'")


def _known(written: str, where: str) -> str:
    """The spelling without dashes, of a flag that this release has."""
    name = written.strip().lstrip("-")
    name = name if name in FLAGS else name.replace("_", "-")
    flag = FLAGS.get(name)
    if flag is None:
        raise InputError(
            f"{where}: llama-server ({RECORDED}) has no flag '{written}'", f"Did you mean '{_nearest(name)}'?"
        )
    if flag.removed:
        raise InputError(f"{where}: llama-server has removed '{written}'", f"Use {flag.removed} instead.")
    return name


def _nearest(name: str) -> str:
    if name in RENAMED:
        return RENAMED[name]
    spellings = [spelling for spelling, flag in FLAGS.items() if not flag.removed]
    return difflib.get_close_matches(name, spellings, n=1, cutoff=0)[0]


def _switched(value: KnobValue, where: str, written: str) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}
    state = words.get(str(value).lower())
    if state is None:
        raise InputError(f"{where}: '{written}' is a switch, got '{value}'", "Give true or false.")
    return state


def _valued(knob: Knob, value: KnobValue, what: str) -> KnobValue:
    match knob.kind:
        case KnobKind.INTEGER | KnobKind.NUMBER:
            return _within(knob, _numeric(knob.kind, value, what), what)
        case KnobKind.CHOICE:
            # YAML reads a bare on or off as a truth value.
            word = ("on" if value else "off") if isinstance(value, bool) else str(value)
            if word not in knob.choices:
                raise InputError(f"{what} must be one of {', '.join(knob.choices)}, got '{word}'")
            return word
        case _:
            if isinstance(value, bool):
                raise InputError(f"{what} needs a value, got {str(value).lower()}")
            return value


def _numeric(kind: KnobKind, value: KnobValue, what: str) -> int | float:
    wanted = "a whole number" if kind is KnobKind.INTEGER else "a number"
    if not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            pass
        else:
            if kind is KnobKind.NUMBER and math.isfinite(number):
                return number
            if number.is_integer():
                return int(number)
    raise InputError(f"{what} must be {wanted}, got '{value}'")


def _within(knob: Knob, number: int | float, what: str) -> int | float:
    if knob.low is not None and number < knob.low:
        raise InputError(f"{what} must be at least {knob.low:g}, got {number}")
    if knob.high is not None and number > knob.high:
        raise InputError(f"{what} must be at most {knob.high:g}, got {number}")
    return number
