"""Settings as people write them, turned into canonical names and values of the right type, or refused."""

from __future__ import annotations

import difflib
import functools
import math
import re
from collections.abc import Mapping

from spectune.domain.errors import InputError
from spectune.domain.knobs import Knob, KnobKind, KnobValue, Settings
from spectune.engines.sglang.flags import RECORDED, Flag, FlagTable, load
from spectune.engines.sglang.knobs import knob_of

OTHER_NAMES: Mapping[str, str] = {
    "num-speculative-tokens": "speculative-num-steps",
    "speculative-num-speculative-tokens": "speculative-num-steps",
    "speculative-topk": "speculative-eagle-topk",
    "speculative-draft": "speculative-draft-model-path",
    "draft-model-path": "speculative-draft-model-path",
    "gpu-memory-utilization": "mem-fraction-static",
    "max-num-seqs": "max-running-requests",
    "max-model-len": "context-length",
    "tensor-parallel": "tensor-parallel-size",
}
"""Names from other engines or older documentation -> SGLang's."""

_SUFFIXES = {"k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def canonical(settings: Settings, where: str, table: FlagTable, exact: bool = False) -> dict[str, KnobValue]:
    """Settings by canonical name, values checked, negations ("no-lora-strict-loading": true) resolved.

    Args:
        settings: as the user wrote them; leading dashes are forgiven.
        where: what the settings belong to, for messages ("service.args").
        table: flags of the installed server.
        exact: accept canonical names alone. Candidates are compared, identified and verified by name, so one setting
            must not have two names there.

    Raises:
        InputError: flag that the server lacks, value of the wrong kind or out of bounds, one flag under two spellings.
    """
    result: dict[str, KnobValue] = {}
    spelt: dict[str, str] = {}
    for written, value in settings.items():
        flag, negated = _known(written, where, table)
        if exact and written != flag.name:
            raise InputError(f"{where}: '{written}' is called '{flag.name}' here", f"Write '{flag.name}'.")
        if flag.name in result:
            raise InputError(
                f"{where}: '{written}' and '{spelt[flag.name]}' set the same SGLang flag", "Keep one of them."
            )
        checked = _valued(flag, value, f"{where}: '{written}'")
        result[flag.name] = not checked if negated else checked
        spelt[flag.name] = written
    return result


def arguments(name: str, value: KnobValue, table: FlagTable) -> tuple[str, ...]:
    """A canonical setting as command line arguments."""
    flag = table.flags[name]
    if isinstance(value, bool):
        if value:
            return (f"--{name}",)
        return (f"--no-{name}",) if flag.negation else ()
    if flag.many:
        return (f"--{name}", *str(value).split())
    return (f"--{name}", str(value))


def _known(written: str, where: str, table: FlagTable) -> tuple[Flag, bool]:
    """The flag and whether its negation was written."""
    name = written.strip().lstrip("-").replace("_", "-")
    flag = table.canonical(name)
    if flag is not None:
        return flag, False
    positive = table.canonical(name.removeprefix("no-"))
    if positive is not None and positive.negation:
        return positive, True
    raise InputError(f"{where}: {table.label} has no flag '{written}'", _instead(name, table))


def _instead(name: str, table: FlagTable) -> str:
    new = _renamed().get(name) or OTHER_NAMES.get(name)
    if new and table.has(new.split("=")[0]):
        return f"'{name}' is called '{new}' there: write that."
    elsewhere = [version for version in RECORDED if any(flag.name == name for flag in load(version))]
    if elsewhere:
        return f"{' and '.join(elsewhere)} of SGLang have it, the installed server has not: remove it."
    return f"Did you mean '{difflib.get_close_matches(name, table.flags, n=1, cutoff=0)[0]}'?"


@functools.cache
def _renamed() -> Mapping[str, str]:
    """Old spelling -> new flag, or "flag=value", from every recorded version."""
    found = {flag.name: flag.becomes for version in RECORDED for flag in load(version) if flag.becomes}
    single = re.compile(r"[\w-]+(?:=[\w-]+)?")
    return {
        flag.name: flag.deprecated
        for version in RECORDED
        for flag in load(version)
        if single.fullmatch(flag.deprecated)
    } | found


def _valued(flag: Flag, value: KnobValue, what: str) -> KnobValue:
    if flag.kind == "unknown":
        return value
    if flag.kind == "switch":
        return _switched(value, what)
    if flag.optional_value and value is True:
        return True
    if isinstance(value, bool):
        raise InputError(f"{what} needs a value, got {str(value).lower()}")
    knob = knob_of(flag)
    match knob.kind:
        case KnobKind.INTEGER | KnobKind.NUMBER:
            return _within(knob, _numeric(knob.kind, value, what), what)
        case KnobKind.CHOICE:
            if str(value) not in knob.choices:
                near = difflib.get_close_matches(str(value), knob.choices, n=1)
                advice = f"Did you mean '{near[0]}'?" if near else ""
                raise InputError(f"{what} must be one of {', '.join(knob.choices)}, got '{value}'", advice)
            return str(value)
        case _:
            return value


def _switched(value: KnobValue, what: str) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}
    state = words.get(str(value).lower())
    if state is None:
        raise InputError(f"{what} is a switch, got '{value}'", "Give true or false.")
    return state


def _numeric(kind: KnobKind, value: KnobValue, what: str) -> int | float:
    """A number; SGLang's suffixes for large ones ("32k" is 32000, "32Ki" is 32768) are understood."""
    wanted = "a whole number" if kind is KnobKind.INTEGER else "a number"
    text = str(value).strip()
    if kind is KnobKind.INTEGER and re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    suffix = next((s for s in sorted(_SUFFIXES, key=len, reverse=True) if text.endswith(s)), "")
    try:
        number = float(text.removesuffix(suffix)) * _SUFFIXES.get(suffix, 1)
    except (ValueError, OverflowError):
        raise InputError(f"{what} must be {wanted}, got '{value}'") from None
    if not math.isfinite(number) or (kind is KnobKind.INTEGER and not number.is_integer()):
        raise InputError(f"{what} must be {wanted}, got '{value}'")
    return number if kind is KnobKind.NUMBER else int(number)


def _within(knob: Knob, number: int | float, what: str) -> int | float:
    if knob.low is not None and number < knob.low:
        raise InputError(f"{what} must be at least {knob.low:g}, got {number}")
    if knob.high is not None and number > knob.high:
        raise InputError(f"{what} must be at most {knob.high:g}, got {number}")
    return number
