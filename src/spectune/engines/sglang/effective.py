"""Effective settings, speculation and room, put together from what pages and log tell."""

from __future__ import annotations

from collections.abc import Mapping

from spectune.domain.candidate import Method
from spectune.domain.deployment import Capacity
from spectune.domain.knobs import KnobValue
from spectune.engines.common.pages import first, simulated, whole
from spectune.engines.common.settings import as_setting
from spectune.engines.sglang.command import SIMULATED
from spectune.engines.sglang.flags import FlagTable
from spectune.engines.sglang.log import LogFacts
from spectune.engines.sglang.methods import ALGORITHMS, drafts_itself
from spectune.engines.sglang.pages import Loads, ModelFacts, ServerInfo

Args = Mapping[str, object]

_SECRET = frozenset({"api-key", "admin-api-key", "ssl-keyfile-password"})
_GRAPHS = "graphs: "


def settings_of(args: Args, info: ServerInfo, log: LogFacts, table: FlagTable) -> dict[str, KnobValue]:
    """Effective settings by canonical name. Secrets are left out."""
    found: dict[str, KnobValue] = {}
    for flag in table.flags.values():
        if flag.name in _SECRET or flag.becomes or flag.name in found:
            continue
        # Several old switches report through the field of the flag that replaced them, with another meaning.
        if flag.deprecated and flag.field:
            continue
        value = as_setting(args.get(flag.key), flag.many)
        if value is not None:
            found[flag.name] = value
    # The settings keep what was asked; the scheduler tells what came of it.
    running = effective_running(args, info, log)
    if running is not None:
        found["max-running-requests"] = running
    return found


def effective_running(args: Args, info: ServerInfo, log: LogFacts) -> int | None:
    """Requests at a time in the terms of max-running-requests: with DP attention the limit of all copies together,
    else of one copy. The log tells it of the first copy alone."""
    each = info.each("effective_max_running_requests_per_dp")
    if not each:
        return log.max_running if whole(args.get("dp_size")) in {None, 1} else None
    together = bool(args.get("enable_dp_attention")) or (whole(args.get("attn_dp_size")) or 1) > 1
    return sum(each) if together else min(each)


def method_of(args: Args) -> tuple[bool | None, Method | None]:
    """Whether the server speculates and how. Both are None when the settings are not among the evidence.

    NEXTN reads back as EAGLE. It is MTP where there is no draft model beside the model itself, as in a command line
    (see methods).
    """
    if "speculative_algorithm" not in args:
        return None, None
    name = args["speculative_algorithm"]
    if name is None or name == "NONE":
        return False, Method.NONE
    if not isinstance(name, str):
        return None, None
    name = name.upper()
    if name in {"NEXTN", "EAGLE", "FROZEN_KV_MTP"}:
        own = drafts_itself(args.get("speculative_draft_model_path"), args.get("model_path"))
        return True, Method.MTP if own else Method.EAGLE
    kind = ALGORITHMS.get(name)
    return True, kind.method if kind else None


def depth_of(args: Args, method: Method | None) -> int | None:
    """Effective k. Under an adaptive depth it is the one the server starts with."""
    if method is Method.NONE:
        return 0
    if method in {Method.NGRAM, Method.DFLASH}:
        tokens = whole(args.get("speculative_num_draft_tokens"))
        return tokens - 1 if tokens else None
    return whole(args.get("speculative_num_steps")) if method else None


def capacity_of(args: Args, info: ServerInfo, log: LogFacts, loads: Loads, model: ModelFacts) -> Capacity:
    """Room of all copies of the model together; memory on all GPUs together."""
    copies = len(info.states) or max(whole(args.get("dp_size")) or 1, 1)
    each_tokens = info.each("memory_usage", "token_capacity")
    one = first(min(each_tokens, default=None), info.kv_tokens, log.kv_tokens)
    context = first(log.context, model.context, whole(args.get("context_length")))
    memory = _by_part(log.bytes_by_part)
    running = info.each("effective_max_running_requests_per_dp")
    return Capacity(
        kv_tokens=first(
            sum(each_tokens) if each_tokens else None, loads.kv_tokens, None if one is None else one * copies
        ),
        max_running=first(
            sum(running) if running else None,
            loads.max_running,
            None if log.max_running is None else log.max_running * copies,
        ),
        context_per_request=context if one is None or context is None else min(context, one),
        kv_bytes=memory.get("kv"),
        graph_requests=_graph_requests(args, info, log, copies),
        memory=memory,
    )


def _by_part(told: Mapping[str, int]) -> dict[str, int]:
    parts = {part: size for part, size in told.items() if not part.startswith(_GRAPHS)}
    graphs = [size for part, size in told.items() if part.startswith(_GRAPHS)]
    return parts | ({"graphs": sum(graphs)} if graphs else {})


def _graph_requests(args: Args, info: ServerInfo, log: LogFacts, copies: int) -> int | None:
    """The log tells what was captured. Without it: what was asked, which is cut to the requests that fit."""
    if log.graph_requests is not None:
        return log.graph_requests * copies
    listed = [state.get("decode_cuda_graph_bs") for state in info.states]
    told = [max(_numbers(batches), default=0) for batches in listed if isinstance(batches, list)]
    if told and len(told) == copies:
        return sum(told)
    config = args.get("cuda_graph_config")
    decode = config.get("decode") if isinstance(config, dict) else None
    if not isinstance(decode, dict):
        return None
    if decode.get("backend") == "disabled":
        return 0
    batches = decode.get("bs")
    most = max(_numbers(batches), default=None) if isinstance(batches, list) else None
    fits = first(min(info.each("effective_max_running_requests_per_dp"), default=None), log.max_running)
    return min(most, fits) * copies if most is not None and fits is not None else None


def invalid_output_of(args: Args, version: str | None, model: ModelFacts) -> str | None:
    """Why the server's output or acceptance is not real; None where nothing says so."""
    if made_up := simulated(version):
        return made_up
    if SIMULATED in {args.get("weight_version"), model.weight_version}:
        return "SGLang simulates acceptance (SGLANG_SIMULATE_ACC_LEN is set): tokens are invented"
    if args.get("load_format") == "dummy":
        return "the model runs with random weights (load-format dummy)"
    if args.get("speculative_draft_load_format") == "dummy" and args.get("speculative_algorithm"):
        return "the draft model runs with random weights (speculative-draft-load-format dummy): acceptance is not real"
    return None


def _numbers(values: list[object]) -> list[int]:
    return [number for value in values if (number := whole(value)) is not None]
