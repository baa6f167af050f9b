"""Combinations of settings that vLLM's server would refuse, or silently change, after minutes of loading.

Each is refused before launch, with the reason. What depends on the model's files (an MTP depth that its layers don't
divide, a draft with another vocabulary) or on what is installed (suffix decoding needs arctic-inference) can't be seen
here; the server's own refusal is read from its log then.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping

from spectune.domain.candidate import Method, Speculation
from spectune.domain.knobs import KnobValue, Settings
from spectune.engines.common.checks import check_port, refuse
from spectune.engines.vllm.flags import FlagTable
from spectune.engines.vllm.methods import DEPTH
from spectune.engines.vllm.schedule import parse
from spectune.engines.vllm.speckeys import (
    DRAFT_TP,
    LENGTH,
    LOOKUP_MAX,
    LOOKUP_MIN,
    METHOD,
    RATES,
    REJECTION,
    SCHEDULE,
)

_FLY = (0, 33)
_V2_BY_DEFAULT = (0, 33)
_KEPT_FROM_SAMPLING = ("min_p", "logit_bias")
"""Sampling parameters with which a request is refused (HTTP 400) under speculation."""


def check(server: Settings, speculation: Speculation, config: Mapping[str, object], table: FlagTable) -> None:
    """Refuses settings that can't work together.

    Args:
        server: every setting that is not speculation.
        config: vLLM's configuration of the speculation.

    Raises:
        InputError: naming the knob and the reason.
    """
    if speculation.method is Method.NONE:
        return
    where = f"candidate {speculation.label}"
    _lookups(config, where)
    _schedule(server, speculation.depth, config, where)
    _rejection(speculation.depth, config, table, where)
    _parallelism(server, config, where)
    _sampling(server, where)
    _async(server, config, table, where)


def check_server(port: int, server: Settings) -> None:
    """Refuses what no server starts with.

    Raises:
        InputError: naming the port or the settings.
    """
    check_port(port)
    if server.get("enforce-eager"):
        for name in ("cudagraph-capture-sizes", "max-cudagraph-capture-size"):
            if name in server:
                refuse("service", f"'{name}' has no effect with enforce-eager", "Remove one of the two.")


def _lookups(config: Mapping[str, object], where: str) -> None:
    most, least = config.get(LOOKUP_MAX), config.get(LOOKUP_MIN)
    if isinstance(most, int) and isinstance(least, int) and least > most:
        refuse(where, f"'{LOOKUP_MIN}' {least} is above '{LOOKUP_MAX}' {most}", "Swap them, or give one of the two.")


def _schedule(server: Settings, depth: int, config: Mapping[str, object], where: str) -> None:
    value = config.get(SCHEDULE)
    if value is None:
        return
    ranges = parse(json.dumps(value), where)
    deeper = [row for row in ranges if row[2] > depth]
    if deeper:
        refuse(
            where,
            f"'{SCHEDULE}' asks for depth {deeper[0][2]}, which vLLM cuts to {DEPTH}, {depth}",
            "Give the schedule's greatest depth as the depth.",
        )
    if _number(server, "data-parallel-size") > 1:
        refuse(
            where,
            f"'{SCHEDULE}' is dropped with data-parallel-size above 1, and the depth is {depth} at all sizes then",
            "Take a static depth.",
        )


def _rejection(depth: int, config: Mapping[str, object], table: FlagTable, where: str) -> None:
    method = config.get(REJECTION, "standard")
    rates, length = config.get(RATES), config.get(LENGTH)
    if method == "fly":
        if table.release < _FLY:
            refuse(where, f"{table.label} has no {REJECTION} fly (new in 0.33)", "Take standard or block.")
        if depth < 2:
            refuse(where, f"{REJECTION} fly needs a depth of at least 2, got {depth}")
    elif any(str(key).startswith("fly_") for key in config):
        refuse(where, f"'fly_...' settings have no effect with {REJECTION} {method}", "Remove them, or take fly.")
    if method != "synthetic":
        if rates is not None or length is not None:
            name = RATES if rates is not None else LENGTH
            refuse(where, f"'{name}' has no effect with {REJECTION} {method}", f"Set {REJECTION}: synthetic.")
        return
    if (rates is None) is (length is None):
        refuse(where, f"{REJECTION} synthetic needs exactly one of {RATES} and {LENGTH}", "Give one of them.")
    if rates is not None:
        _rates(rates, depth, where)
    elif isinstance(length, (int, float)) and not 1 <= length <= depth + 1:
        refuse(where, f"'{LENGTH}' must be 1 to {depth + 1} at depth {depth}, got {length}")


def _rates(rates: object, depth: int, where: str) -> None:
    listed = rates if isinstance(rates, list) else []
    numbers = [rate for rate in listed if isinstance(rate, (int, float)) and not isinstance(rate, bool)]
    if len(numbers) != depth or len(listed) != depth:
        refuse(where, f"'{RATES}' must be a list of {depth} numbers, one for each position, got {rates}")
    if not all(0 <= rate <= 1 for rate in numbers):
        refuse(where, f"'{RATES}' must be between 0 and 1, got {rates}")
    if any(later > earlier for earlier, later in itertools.pairwise(numbers)):
        refuse(
            where,
            f"'{RATES}' must not rise from one position to the next, got {rates}",
            "A position counts as accepted only when all before it are.",
        )


def _parallelism(server: Settings, config: Mapping[str, object], where: str) -> None:
    own, target = config.get(DRAFT_TP), _number(server, "tensor-parallel-size")
    if own is not None and own not in {1, target}:
        refuse(where, f"'{DRAFT_TP}' must be 1 or the target's {target}, got {own}", "Leave it out for the target's.")


def _sampling(server: Settings, where: str) -> None:
    if "logits-processors" in server:
        refuse(where, "'logits-processors' does not work with speculation", "Remove it, or run without speculation.")
    try:
        defaults = json.loads(str(server.get("override-generation-config", "{}")))
    except ValueError:
        return
    for name in _KEPT_FROM_SAMPLING:
        if isinstance(defaults, dict) and defaults.get(name):
            refuse(
                where,
                f"'override-generation-config' sets {name}, with which vLLM refuses every request under speculation",
                f"Remove {name}, or run without speculation.",
            )


def _async(server: Settings, config: Mapping[str, object], table: FlagTable, where: str) -> None:
    """Before 0.33 the V1 runner is the rule, and it refuses to start with both."""
    if not server.get("async-scheduling") or table.release >= _V2_BY_DEFAULT:
        return
    if config.get(METHOD) in {"ngram", "suffix"}:
        refuse(
            where,
            f"'async-scheduling' does not work with {config[METHOD]} in {table.label}",
            "Set it to false for all candidates, so that they differ in speculation alone.",
        )
    if config.get("disable_padded_drafter_batch"):
        refuse(where, "'async-scheduling' does not work with disable_padded_drafter_batch", "Remove one of the two.")


def _number(server: Settings, name: str) -> int:
    value: KnobValue = server.get(name, 1)
    return int(value) if isinstance(value, (int, float)) else 1
