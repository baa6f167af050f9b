"""Settings as people write them, turned into canonical names and values of the right type, or refused."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping

from spectune.domain.errors import InputError
from spectune.domain.knobs import Knob, KnobKind, KnobValue, Settings
from spectune.engines.common import flags
from spectune.engines.common.settings import chosen, number, once_each, switched
from spectune.engines.vllm.flags import RECORDED, Flag, FlagTable, load
from spectune.engines.vllm.knobs import knob_of, speculative_knob
from spectune.engines.vllm.speckeys import METHOD, SPECULATIVE, by_name

OTHER_NAMES: Mapping[str, str] = {
    "mem-fraction-static": "gpu-memory-utilization",
    "max-running-requests": "max-num-seqs",
    "context-length": "max-model-len",
    "chunked-prefill-size": "max-num-batched-tokens",
    "tp-size": "tensor-parallel-size",
    "attention": "attention-backend",
    "cuda-graph-max-bs": "max-cudagraph-capture-size",
    "speculative-model": "speculative-config",
    "num-speculative-tokens": "speculative-config",
    "disable-radix-cache": "enable-prefix-caching",
}
"""Names from other engines or from versions with another way of speculation -> vLLM's."""

_SUFFIXES = {
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
    "T": 2**40,
}
"""vLLM understands them in whole numbers: "32k" is 32000, "32K" is 32768."""


def canonical(settings: Settings, where: str, table: FlagTable, exact: bool = False) -> dict[str, KnobValue]:
    """Settings by canonical name, values checked, negations ("no-enable-prefix-caching": true) resolved.

    Keys of a flag that takes JSON may be given one by one, as vLLM understands them ("compilation-config.mode": 3).
    Keys of --speculative-config have the names of `speckeys`.

    Args:
        settings: as the user wrote them; leading dashes are forgiven.
        where, exact: as in `once_each`.
        table: flags of the installed server.

    Raises:
        InputError: flag that the server lacks, value of the wrong kind or out of bounds, one flag under two spellings.
    """
    result = once_each(
        settings, where, "vLLM", exact, lambda written, value: _setting(written, value, where, table, exact)
    )
    for name in result:
        whole = name.partition(".")[0]
        if whole != name and whole != SPECULATIVE and whole in result:
            raise InputError(f"{where}: '{whole}' is given whole and in parts", "Keep one of the two.")
    return result


def arguments(name: str, value: KnobValue, table: FlagTable) -> tuple[str, ...]:
    """A canonical setting as command line arguments."""
    flag = table.flags.get(name)
    if flag is None:
        # vLLM reads the value of a single key as JSON.
        return (f"--{name}", str(value).lower() if isinstance(value, bool) else str(value))
    return flags.arguments(flag, value)


def _setting(written: str, value: KnobValue, where: str, table: FlagTable, exact: bool) -> tuple[str, KnobValue]:
    name, negated, knob, flag = _known(written, where, table, exact)
    what = f"{where}: '{written}'"
    return name, not switched(value, what) if negated else _valued(knob, flag, value, what)


def _known(written: str, where: str, table: FlagTable, exact: bool) -> tuple[str, bool, Knob, Flag | None]:
    """Canonical name, whether its negation was written, knob, and the flag where it is one of its own."""
    bare = written.strip().lstrip("-")
    key = by_name(bare)
    if key is not None and (exact or key.key != METHOD):  # a service's own method may be any
        return key.name, False, speculative_knob(key), None
    head, dot, rest = bare.partition(".")
    name = head.replace("_", "-")
    flag = table.flags.get(name)
    if dot and rest and flag is not None and flag.kind in {"json", "unknown"}:
        whole = f"{flag.name}.{rest.replace('-', '_')}"
        return whole, False, Knob(whole, KnobKind.TEXT), None
    if flag is not None and not dot:
        return flag.name, False, knob_of(flag), flag
    positive = table.flags.get(name.removeprefix("no-"))
    if not dot and name.startswith("no-") and positive is not None and positive.negation:
        return positive.name, True, knob_of(positive), positive
    raise InputError(f"{where}: {table.label} has no flag '{written}'", _instead(name, table))


def _instead(name: str, table: FlagTable) -> str:
    new = OTHER_NAMES.get(name)
    if new and table.has(new):
        return f"vLLM calls it '{new}'."
    if table.has(name):
        return f"'{name}' takes one value, and has no parts."
    if any(flag.name == name for flag in load()):
        return f"vLLM {RECORDED} has it, the installed server has not: remove it."
    return f"Did you mean '{difflib.get_close_matches(name, table.flags, n=1, cutoff=0)[0]}'?"


def _valued(knob: Knob, flag: Flag | None, value: KnobValue, what: str) -> KnobValue:
    if flag is not None and flag.kind == "unknown":
        return value
    if flag is not None and flag.auto and str(value).strip().lower() in {"auto", "-1"}:
        return "auto"
    if flag is not None and flag.many:
        if isinstance(value, bool) or not str(value).split():
            raise InputError(f"{what} needs one or more values, separated by spaces")
        return str(value)
    if knob.kind is KnobKind.SWITCH:
        return switched(value, what)
    if isinstance(value, bool) and (flag is not None or by_name(knob.name) is not None):
        raise InputError(f"{what} needs a value, got {str(value).lower()}")
    match knob.kind:
        case KnobKind.INTEGER | KnobKind.NUMBER:
            return number(knob, value, what, _SUFFIXES)
        case KnobKind.CHOICE:
            return chosen(knob, str(value), what)
        case _:
            return _json_text(value, what) if _is_json(knob, flag) else value


def _is_json(knob: Knob, flag: Flag | None) -> bool:
    if flag is not None:
        return flag.kind == "json"
    key = by_name(knob.name)
    return key is not None and key.json


def _json_text(value: KnobValue, what: str) -> str:
    """The same JSON in one spelling, so that equal values are equal texts."""
    try:
        return json.dumps(json.loads(str(value)))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} must be JSON, got '{value}' ({error})", "Mind the quotes.") from None
