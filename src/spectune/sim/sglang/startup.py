"""The log of a start, line by line with the share of the load time at which each is due."""

from __future__ import annotations

from collections.abc import Iterator

from spectune.sim.model import Profile
from spectune.sim.sglang.capacity import Fit
from spectune.sim.sglang.faults import Faults
from spectune.sim.sglang.resolve import Resolution

GRAPH_GB = 0.35


class Died(Exception):
    """The scheduler fails while it starts; carries what its traceback ends with."""


def lines(resolution: Resolution, fit: Fit, profile: Profile, faults: Faults) -> Iterator[tuple[float, str]]:
    """What the scheduler logs while it loads, up to the line that gives the capacity.

    Raises:
        Died: a fault says so.
    """
    free = profile.gpu_gb - 0.3
    yield 0.02, "Init torch distributed begin."
    yield 0.05, "Init torch distributed ends. elapsed=0.20 s, mem usage=0.09 GB"
    yield 0.06, f"Load weight begin. avail mem={free:.2f} GB"
    if "crash-at-start" in faults:
        raise Died("RuntimeError: simulated failure while loading weights")
    free -= fit.weights_gb
    yield 0.55, _loaded(profile.architecture, free, fit.weights_gb, profile.load_seconds * 0.5)
    _out_of_memory(resolution, profile, faults, free)
    if fit.draft_gb:
        yield 0.56, "Init torch distributed begin."
        yield 0.57, "Init torch distributed ends. elapsed=0.00 s, mem usage=0.00 GB"
        yield 0.57, f"Load weight begin. avail mem={free:.2f} GB"
        free -= fit.draft_gb
        yield 0.65, _loaded(profile.draft_architecture, free, fit.draft_gb, profile.load_seconds * 0.08)
    for note in fit.notes:
        yield 0.65, note
    yield from _pools(fit, free)
    yield from _graphs(resolution, fit)
    yield (
        0.97,
        (
            f"max_total_num_tokens={fit.kv_tokens}, chunked_prefill_size={resolution.args['chunked_prefill_size']}, "
            f"max_prefill_tokens={resolution.args['max_prefill_tokens']}, max_running_requests={fit.max_running}, "
            f"context_len={fit.context_length}, available_gpu_mem={fit.free_gb:.2f} GB"
        ),
    )
    tree = "MambaRadixCache" if fit.hybrid else "RadixCache"
    yield (
        0.97,
        (
            f"Tree cache initialized: source=default impl={tree} hybrid_swa=False hybrid_ssm={fit.hybrid} "
            "hierarchical=False streaming_wrapped=False"
        ),
    )


def _loaded(architecture: str, free: float, used: float, seconds: float) -> str:
    return (
        f"Load weight end. elapsed={seconds:.2f} s, type={architecture}, avail mem={free:.2f} GB, "
        f"mem usage={used:.2f} GB."
    )


def _out_of_memory(resolution: Resolution, profile: Profile, faults: Faults, free: float) -> None:
    above = faults.get("oom-above-depth")
    if above is None or resolution.draft.depth <= above:
        return
    raise Died(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.35 GiB. GPU 0 has a total capacity of "
        f"{profile.gpu_gb:.2f} GiB of which {min(free, 0.61):.2f} GiB is free. Including non-PyTorch memory, this "
        f"process has {profile.gpu_gb - 0.61:.2f} GiB memory in use."
    )


def _pools(fit: Fit, free: float) -> Iterator[tuple[float, str]]:
    if fit.hybrid:
        state = fit.mamba_gb
        yield (
            0.66,
            (
                f"Mamba Cache is allocated. max_mamba_cache_size: {fit.mamba_slots}, "
                f"conv_state size: {state * 0.02:.2f}GB, "
                f"ssm_state size: {state * 0.78:.2f}GB intermediate_ssm_state_cache size: {state * 0.19:.2f}GB "
                f"intermediate_conv_window_cache size: {state * 0.01:.2f}GB "
            ),
        )
        free -= state
    for size in filter(None, (fit.kv_gb, fit.draft_kv_gb)):
        half = size / 2
        yield (
            0.7,
            (
                f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {fit.kv_tokens}, "
                f"K size: {half:.2f} GB, V size: {half:.2f} GB"
            ),
        )
        free = max(fit.free_gb + GRAPH_GB, free - size)
        yield 0.7, f"Memory pool end. avail mem={free:.2f} GB"


def _graphs(resolution: Resolution, fit: Fit) -> Iterator[tuple[float, str]]:
    if not fit.graph_sizes:
        return
    draft = resolution.draft
    runs = [("target verify" if draft.depth else "target decode", draft.verified)]
    if draft.depth and not draft.ngram:
        runs += [("draft decode", 1)] if draft.depth > 1 else []
        runs += [("draft extend", draft.verified)]
    sizes = list(fit.graph_sizes)
    for number, (name, tokens) in enumerate(runs):
        when = 0.72 + 0.08 * number
        yield (
            when,
            (
                f"Capture {name} CUDA graph begin. backend=full, num_tokens_per_bs={tokens}, bs={sizes}, "
                f"avail mem={fit.free_gb + GRAPH_GB:.2f} GB"
            ),
        )
        yield (
            when + 0.07,
            (
                f"Capture {name} CUDA graph end. elapsed=5.79 s, mem usage={GRAPH_GB:.2f} GB, "
                f"avail mem={fit.free_gb:.2f} GB."
            ),
        )
