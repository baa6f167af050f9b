"""Room: how many tokens and requests fit on the GPUs beside a model, and what a depth of speculation costs of it.

All bytes are those of one GPU; tensor parallelism splits heads, states and weights evenly. Formulas:

- KV bytes a token: layers x KV heads x (key + value width) x bytes a number (grouped queries: Ainslie et al. 2023);
  latent attention keeps one vector a layer, which every GPU holds whole (DeepSeek-V2, 2024, section 2.1).
- State bytes a request of a gated delta net: value heads x key width x value width, and the last kernel - 1 inputs of
  the convolution (Yang et al. 2024).
- How SGLang divides what is left between states and KV (DraftStates): read in the source of 0.5.15 and checked against
  recorded runs of it; the other way was inferred from the figures of a published campaign. Both give the recorded
  figures to the token (tests/predict/test_capacity_recorded.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, floor

from spectune.domain.deployment import Capacity
from spectune.domain.spec import ConstraintSpec
from spectune.predict.model_config import ModelShape

_ELEMENT_BYTES = {
    **dict.fromkeys(("f32", "float32"), 4.0),
    **dict.fromkeys(("f16", "bf16", "float16", "bfloat16", "half"), 2.0),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2"), 1.0),
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}
"""Type of a KV cache -> bytes a number. llama.cpp's types come in blocks of 32 numbers with a scale of two bytes (and,
ending in _1, an offset of two more)."""


class DraftStates(StrEnum):
    """Where a hybrid model's engine takes the room for the states after each drafted token, which it needs to go back
    to the last accepted one."""

    WITHIN = "within"
    """Out of the share of states, for the requests that then fit (SGLang 0.5.15)."""
    FIRST = "first"
    """Before anything is shared out, for as many requests as were asked (the published hand-run campaign)."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What decides how a deployment's memory is divided.

    Attributes:
        draft_tokens: tokens of one verify step: depth + 1 for a chain, 0 without speculation.
        draft: shape of the draft model, or of the MTP layers as a model; None where drafts come from no model.
        draft_kv_counted: whether the draft's KV cache is planned for. SGLang 0.5.15 does not for a hybrid model's MTP
            layer: it comes out of the reserve and is told apart in the prediction's memory.
        gpus: tensor parallelism.
        kv_bytes: bytes a number in the KV cache.
        block: tokens come in whole blocks of so many.
        one_pool: whether layers with a sliding window keep every token like the others. Where they have a pool of their
            own, its size is the engine's choice, and nothing is predicted.
        asked_requests: limit on running requests as asked, or as the engine sets it; None for no limit.
        slots_per_request: states that a hybrid model's engine keeps for a running request, its prefix cache included.
            SGLang: 5 by default, 3 without overlap, 1 without prefix cache.
        state_ratio: room of states / room of KV (SGLang's mamba-full-memory-ratio).
        draft_states: see DraftStates.
    """

    draft_tokens: int = 0
    draft: ModelShape | None = None
    draft_kv_counted: bool = True
    gpus: int = 1
    kv_bytes: float = 2.0
    block: int = 1
    one_pool: bool = False
    asked_requests: int | None = None
    slots_per_request: int = 5
    state_ratio: float = 0.9
    draft_states: DraftStates = DraftStates.WITHIN

    def at_depth(self, depth: int) -> Setup:
        """The same with a chain of another depth; 0 is without speculation, and without a draft model."""
        if depth == 0:
            return replace(self, draft_tokens=0, draft=None)
        return replace(self, draft_tokens=depth + 1)


def element_bytes(kv_type: str) -> float | None:
    """Bytes a number of a KV cache type in any engine's spelling; None for types not known here."""
    return _ELEMENT_BYTES.get(kv_type.lower().removeprefix("torch."))


def kv_bytes_per_token(
    shape: ModelShape, kv_bytes: float = 2.0, gpus: int = 1, value_bytes: float | None = None
) -> float | None:
    """KV cache of one token in the layers that keep every token; None where the shape does not tell.

    Args:
        value_bytes: bytes a number of values, where they are kept in another type than keys.
    """
    if shape.full_layers is None:
        return None
    layer = _layer_bytes(shape, kv_bytes, kv_bytes if value_bytes is None else value_bytes, gpus)
    return None if layer is None else shape.full_layers * layer


def request_bytes(shape: ModelShape, tokens: int, kv_bytes: float = 2.0, gpus: int = 1) -> float | None:
    """Memory of one request of so many tokens: all its tokens, its window in sliding layers, its state in linear ones.
    None where the shape does not tell."""
    per_token = kv_bytes_per_token(shape, kv_bytes, gpus)
    if per_token is None:
        return None
    total = tokens * per_token
    if shape.sliding_layers:
        layer = _layer_bytes(shape, kv_bytes, kv_bytes, gpus)
        if layer is None or shape.window is None:
            return None
        total += min(tokens, shape.window) * shape.sliding_layers * layer
    if shape.hybrid:
        state = state_bytes(shape, gpus)
        if state is None:
            return None
        total += state
    return total


def state_bytes(shape: ModelShape, gpus: int = 1) -> int | None:
    """One state slot over all linear layers: recurrent state and the convolution's window. None where unknown."""
    state = shape.state
    if state is None or shape.linear_layers is None or shape.dtype_bytes is None:
        return None
    recurrent = state.value_heads * state.key_dim * state.value_dim * state.element_bytes
    window = state.channels * (state.kernel - 1) * shape.dtype_bytes
    return shape.linear_layers * (recurrent + window) // gpus


def left_for_cache(free_bytes: float, fraction: float, *parts: float) -> float:
    """Bytes left for KV cache and states: fraction x free memory before loading - what is loaded.

    Both engines count so: SGLang takes free memory x (1 - mem-fraction-static) away from what is free after loading,
    vLLM takes weights, the peak of activations and graphs away from gpu-memory-utilization x memory.

    Args:
        parts: bytes of weights, draft weights, and, for vLLM, activations and graphs.
    """
    return free_bytes * fraction - sum(parts)


def predicted(shape: ModelShape, setup: Setup, left: float) -> Capacity | None:
    """The room when `left` bytes are there for KV cache and states.

    Returns:
        kv_bytes and memory hold bytes of one GPU. max_running is the engine's limit, not what long requests leave of
        it (see users_that_fit). None where the shape does not tell, or nothing fits.
    """
    per_token = cell_bytes(shape, setup)
    if per_token is None or per_token <= 0:
        return None
    slot, slots, running = 0, 0, setup.asked_requests
    if shape.hybrid:
        found = state_bytes(shape, setup.gpus)
        if found is None:
            return None
        slot = found
        slots, running = _state_slots(setup, slot, left)
        if not running:
            return None
    for_drafts = _draft_state_requests(setup, running) * setup.draft_tokens * slot
    for_kv = left - slots * slot - for_drafts
    tokens = floor(for_kv / (per_token * setup.block)) * setup.block
    if tokens <= 0:
        return None
    memory = {"kv": round(tokens * per_token)}
    if slot:
        memory |= {"state": slots * slot, "draft state": for_drafts}
    if setup.draft is not None and not setup.draft_kv_counted:
        extra = kv_bytes_per_token(setup.draft, setup.kv_bytes, setup.gpus)
        memory |= {} if extra is None else {"draft kv": round(tokens * extra)}
    return Capacity(kv_tokens=tokens, max_running=running, kv_bytes=memory["kv"], memory=memory)


def slotted(
    shape: ModelShape,
    context: int,
    slots: int,
    unified: bool = False,
    kv_bytes: float = 2.0,
    value_bytes: float | None = None,
) -> Capacity:
    """The room of an engine that is told its room (llama.cpp: -c and -np): only the bytes are to be predicted.

    Args:
        context: tokens of all slots together.
        unified: whether one slot may take it all; else each has its even share.
    """
    layer = kv_bytes_per_token(shape, kv_bytes, 1, value_bytes)
    memory = None if layer is None or shape.sliding_layers or shape.hybrid else round(context * layer)
    return Capacity(
        kv_tokens=context,
        max_running=slots,
        context_per_request=context if unified else context // slots,
        kv_bytes=memory,
        memory={} if memory is None else {"kv": memory},
    )


def cell_bytes(shape: ModelShape, setup: Setup) -> float | None:
    """KV bytes a token that the engine plans for, the draft's among them where it is counted. None where the shape does
    not tell."""
    layer = _layer_bytes(shape, setup.kv_bytes, setup.kv_bytes, setup.gpus)
    if layer is None or shape.full_layers is None or (shape.sliding_layers and not setup.one_pool):
        return None
    own = (shape.full_layers + (shape.sliding_layers or 0)) * layer
    if setup.draft is None or not setup.draft_kv_counted:
        return own
    draft = kv_bytes_per_token(setup.draft, setup.kv_bytes, setup.gpus)
    return None if draft is None else own + draft


def users_that_fit(capacity: Capacity, tokens: int) -> int | None:
    """Users of so many tokens each (prompt and answer) that are served at the same time; None where it is not told.

    Raises:
        ValueError: tokens is below 1.
    """
    if tokens < 1:
        raise ValueError("a user has at least one token")
    if capacity.context_per_request is not None and tokens > capacity.context_per_request:
        return 0
    if capacity.kv_tokens is None:
        return None
    fit = capacity.kv_tokens // tokens
    return fit if capacity.max_running is None else min(fit, capacity.max_running)


def cost(before: Capacity, after: Capacity, tokens: int) -> str:
    """What a change costs in room, for people: "-17 % KV, 5 fewer requests at a time, 2 fewer users of 32k"."""
    parts = []
    if before.kv_tokens and after.kv_tokens is not None:
        parts.append(f"{100 * (after.kv_tokens / before.kv_tokens - 1):+.0f} % KV")
    if before.max_running is not None and after.max_running is not None:
        parts.append(_fewer(before.max_running - after.max_running, "requests at a time"))
    users, then = users_that_fit(before, tokens), users_that_fit(after, tokens)
    if users is not None and then is not None:
        size = f"{tokens // 1024}k" if tokens % 1024 == 0 else f"{tokens:,} tokens"
        parts.append(_fewer(users - then, f"users of {size}"))
    return ", ".join(parts) if parts else "not known"


def prune(constraints: ConstraintSpec, room: Capacity, uncertainty: float = 0.0) -> str | None:
    """Why a candidate of this predicted room can't meet the constraints; None where it can, or where it is not known.

    Args:
        uncertainty: relative; a candidate is left out only if it misses the floor by more (0.02 = 2 %).
    """
    floors = (
        ("KV tokens", constraints.min_kv_tokens, room.kv_tokens),
        ("running requests", constraints.min_running_requests, room.max_running),
    )
    for name, least, found in floors:
        if least is not None and found is not None and found * (1 + uncertainty) < least:
            return f"would leave room for {found:,} {name}; the campaign demands {least:,}"
    return None


def _layer_bytes(shape: ModelShape, key_bytes: float, value_bytes: float, gpus: int) -> float | None:
    if shape.latent_dim is not None:
        return shape.latent_dim * key_bytes
    if shape.kv_heads is None or shape.key_dim is None or shape.value_dim is None:
        return None
    # Fewer heads than GPUs: each GPU holds a copy of one.
    return ceil(shape.kv_heads / gpus) * (shape.key_dim * key_bytes + shape.value_dim * value_bytes)


def _state_slots(setup: Setup, slot: int, left: float) -> tuple[int, int]:
    """State slots of a hybrid model, and requests that run at a time by them."""
    share = setup.state_ratio / (1 + setup.state_ratio)
    if setup.draft_states is DraftStates.FIRST:
        asked = setup.asked_requests or 0
        slots = floor(share * (left - asked * setup.draft_tokens * slot) / slot)
    else:
        slots = floor(share * left / (slot * (1 + setup.draft_tokens / setup.slots_per_request)))
    running = max(0, slots) // setup.slots_per_request
    return slots, running if setup.asked_requests is None else min(running, setup.asked_requests)


def _draft_state_requests(setup: Setup, running: int | None) -> int:
    """Requests for which states of drafted tokens are kept."""
    asked = setup.asked_requests if setup.draft_states is DraftStates.FIRST else running
    return asked or 0


def _fewer(lost: int, what: str) -> str:
    if lost == 0:
        return f"as many {what}"
    return f"{abs(lost)} {'fewer' if lost > 0 else 'more'} {what}"
