"""What fits into the simulated GPU, and what is cut down because it does not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from spectune.sim.model import Profile
from spectune.sim.sglang.faults import Faults
from spectune.sim.sglang.resolve import Refused, Resolution, integer

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Fit:
    """Capacity in effect.

    Attributes:
        max_running: requests at a time.
        graph_max: largest batch with a CUDA graph; 0 without graphs.
        graph_sizes: batches that graphs are captured for.
        mamba_slots, mamba_ratio: state slots, and slots a request; 0 without recurrent layers.
        notes: warnings, in the order of the log.
        weights_gb, draft_gb, kv_gb, draft_kv_gb, mamba_gb, free_gb: of one GPU.
    """

    max_running: int
    kv_tokens: int
    context_length: int
    graph_max: int
    graph_sizes: tuple[int, ...]
    hybrid: bool
    mamba_slots: int
    mamba_ratio: int
    notes: tuple[str, ...]
    weights_gb: float
    draft_gb: float
    kv_gb: float
    draft_kv_gb: float
    mamba_gb: float
    free_gb: float


def fit(resolution: Resolution, profile: Profile, faults: Faults) -> Fit:
    """Capacity for a resolved command line.

    Raises:
        Refused: the model, or its caches, do not fit.
    """
    args, draft = resolution.args, resolution.draft
    drafts = draft.depth > 0 and not draft.ngram
    draft_gb = profile.draft_gb if drafts else 0.0
    fraction = float(str(args["mem_fraction_static"]))
    rest = profile.gpu_gb * fraction - profile.weights_gb - draft_gb
    usual = profile.gpu_gb * profile.mem_fraction - profile.weights_gb - draft_gb
    scale = rest / usual if usual > 0 else 1.0
    kv = profile.kv_tokens.at(draft.state_tokens, max(0.0, scale))
    if most := integer(args, "max_total_tokens"):
        kv = min(kv, most)
    if kv < 1:
        raise Refused(
            "RuntimeError",
            "Not enough memory. Please try to increase --mem-fraction-static. "
            f"Current value: mem_fraction_static={fraction}",
        )
    context = integer(args, "context_length") or profile.context_length
    ratio = _slots_a_request(args) if profile.hybrid else 0
    room = profile.requests.at(draft.state_tokens, max(0.0, scale))
    slots = room * ratio + max(0, ratio - 1)
    if profile.hybrid and (given := integer(args, "max_mamba_cache_size")):
        slots, room = given, given // ratio
    if room < 1:
        raise Refused("RuntimeError", "Hybrid (mamba/linear-attention) state cache is too small to serve any requests.")
    running, notes = _running(args, kv, context, room)
    if limit := faults.get("silent-limit-48"):
        running = min(running, int(limit))
    sizes = _captured(args["cuda_graph_config"], running)
    kv_gb = kv * profile.kv_bytes_per_token / GIB
    return Fit(
        max_running=running,
        kv_tokens=kv,
        context_length=context,
        graph_max=max(sizes, default=0),
        graph_sizes=sizes,
        hybrid=profile.hybrid,
        mamba_slots=slots if profile.hybrid else 0,
        mamba_ratio=ratio,
        notes=notes,
        weights_gb=profile.weights_gb,
        draft_gb=draft_gb,
        kv_gb=kv_gb,
        draft_kv_gb=kv_gb / 24 if drafts else 0.0,
        mamba_gb=max(0.0, rest - kv_gb) / 2 if profile.hybrid else 0.0,
        free_gb=max(0.5, profile.gpu_gb * (1.0 - fraction)),
    )


def _slots_a_request(args: Mapping[str, object]) -> int:
    if args["disable_radix_cache"]:
        return 1
    strategy = args["mamba_radix_cache_strategy"]
    if strategy == "no_buffer":
        return 3
    return 4 if args["disable_overlap_schedule"] or strategy == "extra_buffer_lazy" else 5


def _running(args: Mapping[str, object], kv: int, context: int, room: int) -> tuple[int, tuple[str, ...]]:
    asked = integer(args, "max_running_requests")
    if asked is None:
        estimate = max(min(math.floor(kv / context * 512), 4096), 2048)
        return max(1, min(estimate, kv // 2, room)), ()
    effective = max(1, min(asked, kv // 2, room))
    if effective == asked:
        return asked, ()
    note = (
        f"max_running_requests was reduced from the requested {asked} to {effective} (per dp worker) "
        "due to the available KV cache capacity."
    )
    return effective, (note,)


def _captured(config: object, running: int) -> tuple[int, ...]:
    decode = config["decode"] if isinstance(config, dict) else {}
    if decode.get("backend") == "disabled":
        return ()
    sizes = [size for size in decode.get("bs", ()) if size <= running]
    if sizes and sizes[-1] < running < max(decode["bs"]):
        sizes.append(running)
    return tuple(sizes)
