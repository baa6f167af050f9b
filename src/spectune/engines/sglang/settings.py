"""Settings as people write them, turned into canonical names and values of the right type, or refused."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping

from spectune.domain.errors import InputError
from spectune.domain.knobs import KnobKind, KnobValue, Settings
from spectune.engines.common import flags
from spectune.engines.common.settings import chosen, number, once_each, switched
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
"""SGLang understands them in whole numbers: "32k" is 32000, "32Ki" is 32768."""


def canonical(settings: Settings, where: str, table: FlagTable, exact: bool = False) -> dict[str, KnobValue]:
    """Settings by canonical name, values checked, negations ("no-lora-strict-loading": true) resolved.

    Args:
        settings: as the user wrote them; leading dashes are forgiven.
        where, exact: as in `once_each`.
        table: flags of the installed server.

    Raises:
        InputError: flag that the server lacks, value of the wrong kind or out of bounds, one flag under two spellings.
    """
    return once_each(settings, where, "SGLang", exact, lambda written, value: _setting(written, value, where, table))


def arguments(name: str, value: KnobValue, table: FlagTable) -> tuple[str, ...]:
    """A canonical setting as command line arguments."""
    return flags.arguments(table.flags[name], value)


def _setting(written: str, value: KnobValue, where: str, table: FlagTable) -> tuple[str, KnobValue]:
    flag, negated = _known(written, where, table)
    what = f"{where}: '{written}'"
    return flag.name, not switched(value, what) if negated else _valued(flag, value, what)


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
        return switched(value, what)
    if flag.optional_value and value is True:
        return True
    if isinstance(value, bool):
        raise InputError(f"{what} needs a value, got {str(value).lower()}")
    knob = knob_of(flag)
    match knob.kind:
        case KnobKind.INTEGER | KnobKind.NUMBER:
            return number(knob, value, what, _SUFFIXES)
        case KnobKind.CHOICE:
            return chosen(knob, str(value), what)
        case _:
            return value
