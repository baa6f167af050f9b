"""Settings as people write them, turned into canonical names and values of the right type, or refused."""

from __future__ import annotations

import difflib

from spectune.domain.errors import InputError
from spectune.domain.knobs import Knob, KnobKind, KnobValue, Settings
from spectune.engines.common.settings import chosen, number, once_each, switched
from spectune.engines.llamacpp.flags import RECORDED
from spectune.engines.llamacpp.knobs import CANONICAL, FLAGS, KNOBS, RENAMED


def canonical(settings: Settings, where: str, exact: bool = False) -> dict[str, KnobValue]:
    """Settings by canonical name, values checked, negations ("no-kv-unified": true) resolved.

    Args:
        settings: as the user wrote them; leading dashes are forgiven.
        where, exact: as in `once_each`.

    Raises:
        InputError: unknown or removed flag, value of the wrong kind or out of bounds, one flag under two spellings.
    """
    return once_each(settings, where, "llama-server", exact, lambda written, value: _setting(written, value, where))


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
    canonical_name, what = CANONICAL[name], f"{where}: '{written}'"
    if flag.takes == 0:
        state = switched(value, what)
        return canonical_name, not state if f"--{name}" in flag.off or f"-{name}" in flag.off else state
    knob = KNOBS.get(canonical_name, Knob(canonical_name, KnobKind.TEXT))
    if flag.takes == 2 and len(str(value).split()) != 2:
        raise InputError(f"{what} takes two values, separated by a space")
    return canonical_name, _valued(knob, value, what)


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


def _valued(knob: Knob, value: KnobValue, what: str) -> KnobValue:
    match knob.kind:
        case KnobKind.INTEGER | KnobKind.NUMBER:
            return number(knob, value, what, {})
        case KnobKind.CHOICE:
            # YAML reads a bare on or off as a truth value.
            word = ("on" if value else "off") if isinstance(value, bool) else str(value)
            return chosen(knob, word, what)
        case _:
            if isinstance(value, bool):
                raise InputError(f"{what} needs a value, got {str(value).lower()}")
            return value
