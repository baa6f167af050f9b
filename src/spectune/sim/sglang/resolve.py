"""From asked arguments to those in effect: SGLang 0.5.15's choices, adjustments and refusals around speculation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spectune.sim.model import Draft, Profile
from spectune.sim.sglang.faults import Faults

EAGLE_FAMILY = frozenset({"EAGLE", "EAGLE3", "STANDALONE"})
ALGORITHMS = EAGLE_FAMILY | {"NGRAM", "DFLASH"}
AUTOMATIC_LIMIT = 48
"""Requests at a time under speculation where the user gives no limit."""
HIGHEST_PORT = 55535
"""The engine adds 10000 to the port for gRPC, on or off."""
LARGE_TP = 4
DEFAULT_ADAPTIVE: Mapping[int, tuple[int, ...]] = {1: (1, 3, 7), 8: (0, 1, 3), 32: (0, 1), 64: (0,)}


class Refused(Exception):
    """The engine raises at these arguments; `kind` is the exception's name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


@dataclass(frozen=True, slots=True)
class Resolution:
    """Arguments in effect.

    Attributes:
        args: by name, as the read-back shows them.
        notes: warnings, in the order of the log.
        adaptive: batch size -> candidate depths, where speculation adapts itself.
    """

    args: dict[str, object]
    notes: tuple[str, ...]
    draft: Draft
    adaptive: Mapping[int, tuple[int, ...]] | None


def integer(args: Mapping[str, object], name: str) -> int | None:
    """An integer argument; None where it is unset."""
    value = args[name]
    return value if isinstance(value, int) else None


def resolve(asked: Mapping[str, object], profile: Profile, faults: Faults) -> Resolution:
    """What the engine makes of its arguments.

    Raises:
        Refused: it would not start with them.
    """
    args, notes = dict(asked), list[str]()
    if (integer(args, "port") or 0) > HIGHEST_PORT:
        port = (integer(args, "port") or 0) + 10000
        raise Refused("ValueError", f"SGLANG_GRPC_PORT ({port}) must be between 1 and 65535")
    args["tokenizer_path"] = args["tokenizer_path"] or args["model_path"]
    args["served_model_name"] = args["served_model_name"] or args["model_path"]
    args["mem_fraction_static"] = args["mem_fraction_static"] or profile.mem_fraction
    args["chunked_prefill_size"] = args["chunked_prefill_size"] or 8192
    args["page_size"] = args["page_size"] or 1
    args["uses_mamba_radix_cache"] = profile.hybrid and not args["disable_radix_cache"]
    if args["uses_mamba_radix_cache"] and args["mamba_radix_cache_strategy"] == "auto":
        args["mamba_radix_cache_strategy"] = "no_buffer" if args["disable_overlap_schedule"] else "extra_buffer"
    adaptive = _speculation(args, notes, profile, faults)
    topk = integer(args, "speculative_eagle_topk")
    args["attention_backend"] = args["attention_backend"] or ("flashinfer" if topk and topk > 1 else "fa3")
    args["sampling_backend"] = args["sampling_backend"] or "flashinfer"
    args["grammar_backend"] = args["grammar_backend"] or "xgrammar"
    args["random_seed"] = args["random_seed"] if args["random_seed"] is not None else 627920464
    args["cuda_graph_config"] = _graphs(args, profile, faults)
    return Resolution(args, tuple(notes), _draft(args), adaptive)


def _speculation(
    args: dict[str, object], notes: list[str], profile: Profile, faults: Faults
) -> Mapping[int, tuple[int, ...]] | None:
    if args["speculative_algorithm"] is None:
        return None
    name = str(args["speculative_algorithm"]).upper()
    name = "EAGLE" if name == "NEXTN" else name
    if name not in ALGORITHMS:
        raise Refused("ValueError", f"Unknown speculative algorithm name: {name}")
    args["speculative_algorithm"] = name
    if args["max_running_requests"] is None:
        args["max_running_requests"] = AUTOMATIC_LIMIT
        notes.append(
            "Max running requests is reset to 48 for speculative decoding. "
            "You can override this by explicitly setting --max-running-requests."
        )
    args["speculative_moe_runner_backend"] = args["speculative_moe_runner_backend"] or args["moe_runner_backend"]
    if name == "NGRAM":
        _ngram(args, notes)
        return None
    if args["enable_mixed_chunk"]:
        args["enable_mixed_chunk"] = False
        notes.append("Mixed chunked prefill is disabled because of using eagle speculative decoding.")
    if name == "DFLASH":
        size = integer(args, "speculative_dflash_block_size") or integer(args, "speculative_num_draft_tokens") or 16
        args.update(speculative_num_draft_tokens=size, speculative_num_steps=size - 1, speculative_eagle_topk=1)
        return None
    adaptive = _adaptive(args, notes, faults) if args["speculative_adaptive"] else None
    _chain(args, notes, profile, faults)
    return adaptive


def _ngram(args: dict[str, object], notes: list[str]) -> None:
    args["speculative_eagle_topk"] = args["speculative_ngram_max_bfs_breadth"]
    if args["speculative_num_draft_tokens"] is None:
        args["speculative_num_draft_tokens"] = 12
        notes.append(
            "speculative_num_draft_tokens is set to 12 by default for ngram speculative decoding. "
            "You can override this by explicitly setting --speculative-num-draft-tokens."
        )
    tokens, topk = integer(args, "speculative_num_draft_tokens") or 1, integer(args, "speculative_eagle_topk") or 1
    if args["speculative_num_steps"] is None:
        args["speculative_num_steps"] = tokens // topk
    args["enable_mixed_chunk"] = False
    notes.append("The mixed chunked prefill are disabled because of using ngram speculative decoding.")


def _chain(args: dict[str, object], notes: list[str], profile: Profile, faults: Faults) -> None:
    steps, topk = integer(args, "speculative_num_steps"), integer(args, "speculative_eagle_topk")
    tokens = integer(args, "speculative_num_draft_tokens")
    if steps is None:
        if topk is not None or tokens is not None:
            raise Refused("AssertionError", "")
        llama = profile.architecture == "LlamaForCausalLM" and args["speculative_algorithm"] != "STANDALONE"
        steps, topk, tokens = (5, 4, 8) if llama else (3, 1, 4)
    if topk is None:
        raise Refused("TypeError", "'>' not supported between instances of 'NoneType' and 'int'")
    if args["attention_backend"] == "trtllm_mha" and topk > 1:
        raise Refused("ValueError", "trtllm_mha backend only supports topk = 1 for speculative decoding.")
    if "wrong-settings" in faults:
        steps = int(faults.get("wrong-settings") or 0) or (steps - 1 if steps > 1 else steps + 1)
        tokens = steps + 1
    if "topk-ignored" in faults:
        topk, tokens = 1, steps + 1
    if topk == 1 and tokens != steps + 1:
        tokens = steps + 1
        notes.append(
            "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1"
        )
    if tokens is None:
        raise Refused("TypeError", "unsupported operand type(s) for -: 'NoneType' and 'int'")
    args.update(speculative_num_steps=steps, speculative_eagle_topk=topk, speculative_num_draft_tokens=tokens)


def _adaptive(args: dict[str, object], notes: list[str], faults: Faults) -> Mapping[int, tuple[int, ...]] | None:
    topk = integer(args, "speculative_eagle_topk")
    reason = None
    if args["speculative_algorithm"] not in ("EAGLE", "EAGLE3"):
        reason = f"speculative_algorithm={args['speculative_algorithm']} is not EAGLE/EAGLE3"
    elif topk not in (None, 1):
        reason = f"speculative_eagle_topk={topk} is not 1"
    elif "adaptive-fallback" in faults:
        reason = "two-batch overlap is enabled"
    if reason is not None:
        args["speculative_adaptive"] = False
        notes.append(f"speculative_adaptive disabled: {reason}. Falling back to static speculative params.")
        return None
    plan = _adaptive_plan(args["speculative_adaptive_config"])
    union = sorted({depth for depths in plan.values() for depth in depths})
    steps = integer(args, "speculative_num_steps")
    if steps is None:
        steps = union[len(union) // 2]
    elif steps not in union:
        raise Refused(
            "ValueError",
            f"--speculative-num-steps={steps} is not in the adaptive config candidate_steps {union}. "
            "Pass one of those values.",
        )
    args.update(speculative_num_steps=steps, speculative_eagle_topk=1, speculative_num_draft_tokens=steps + 1)
    return plan


def _adaptive_plan(config: object) -> Mapping[int, tuple[int, ...]]:
    if config is None:
        return DEFAULT_ADAPTIVE
    try:
        plain = json.loads(Path(str(config)).read_text(encoding="utf-8"))
        keyed = {int(key): value for key, value in plain.items() if key.isdigit()}
        plan = {batch: tuple(map(int, value["candidate_steps"])) for batch, value in sorted(keyed.items())}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(type(error).__name__, f"{config}: {error}") from error
    if not plan or not all(plan.values()):
        raise Refused("ValueError", f"{config}: no candidate_steps")
    return plan


def _graphs(args: Mapping[str, object], profile: Profile, faults: Faults) -> dict[str, object]:
    most = integer(args, "cuda_graph_max_bs_decode") or (256 if (integer(args, "tp_size") or 1) < LARGE_TP else 512)
    if "graph-truncated" in faults:
        most = int(faults.get("graph-truncated") or 1)
    given = args["cuda_graph_bs_decode"]
    sizes = given if isinstance(given, list) else graph_sizes(most, args["speculative_algorithm"] is not None)
    off = bool(args["disable_cuda_graph"] or args["disable_decode_cuda_graph"])
    common = {"tc_compiler": "eager", "full_prefill_max_req": None}
    decode = {"backend": "disabled" if off else "full", "max_bs": max(sizes, default=most), "bs": sizes, **common}
    prefill = "disabled" if profile.hybrid or args["disable_prefill_cuda_graph"] or off else "breakable"
    return {"decode": decode, "prefill": {"backend": prefill, "max_bs": args["chunked_prefill_size"], **common}}


def graph_sizes(most: int, speculates: bool) -> list[int]:
    """Batch sizes that decode graphs are captured for, up to `most`."""
    if speculates:
        steps = (*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8), *range(272, most + 1, 16))
    else:
        steps = (1, 2, 4, *range(8, 17, 4), *range(24, 257, 8), *range(272, most + 1, 16))
    sizes = [size for size in steps if size <= most]
    return sizes if sizes and sizes[-1] == most else [*sizes, most]


def _draft(args: Mapping[str, object]) -> Draft:
    if args["speculative_algorithm"] is None:
        return Draft(0)
    steps, topk = integer(args, "speculative_num_steps") or 0, integer(args, "speculative_eagle_topk") or 1
    tokens = integer(args, "speculative_num_draft_tokens") or 1
    if args["speculative_algorithm"] == "NGRAM":
        return Draft(max(0, tokens - 1), 1, tokens, ngram=True)
    return Draft(steps, topk, tokens)
