"""How many weights a model has, from the sizes in its config.json.

Counted matrix by matrix as the families' reference implementations lay them out; vectors (norms, biases) are left out,
which is below a thousandth of any model above 100 million weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spectune.predict.model_config import EXPERTS, ModelShape, first, from_hugging_face, text_part, whole

_DENSE = frozenset({"llama", "mistral", "qwen2", "qwen3", "olmo2", "phi3", "qwen3_5", "qwen3_5_text"})
_MIXED = frozenset({"mixtral", "qwen2_moe", "qwen3_moe", "qwen3_next", "qwen3_5_moe", "qwen3_5_moe_text"})
_GATED = frozenset({"qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"})
"""Families whose full attention has an output gate, a second matrix the size of the queries'."""


@dataclass(frozen=True, slots=True)
class WeightCount:
    """Numbers of weights.

    Attributes:
        model: of the model as served, without what is for multi-token prediction; vision parts are not counted.
        mtp: of one layer for multi-token prediction, with the input and output embeddings that engines load beside it.
    """

    model: int
    mtp: int


def count_weights(config: Mapping[str, object]) -> WeightCount | None:
    """Weights of a model; None for families whose layout is not known here or where a size is missing."""
    shape, body = from_hugging_face(config), text_part(config)
    hidden, vocabulary = whole(body.get("hidden_size")), whole(body.get("vocab_size"))
    if shape.family not in _DENSE | _MIXED or not hidden or not vocabulary:
        return None
    full, linear, feed = _attention(shape, body, hidden), _linear(shape, hidden), _feed_forward(shape, body, hidden)
    if full is None or linear is None or feed is None:
        return None
    keeping = (shape.full_layers or 0) + (shape.sliding_layers or 0)
    layers = keeping + (shape.linear_layers or 0)
    tied = bool(body.get("tie_word_embeddings", config.get("tie_word_embeddings", False)))
    tables = hidden * vocabulary * (1 if tied else 2)
    model = tables + keeping * full + (shape.linear_layers or 0) * linear + layers * feed
    return WeightCount(model, tables + full + feed + 2 * hidden * hidden)


def weight_bytes(weights: int, shape: ModelShape, gpus: int = 1) -> float | None:
    """Bytes of weights on each GPU when they are split evenly; None where the quantisation does not tell."""
    return None if shape.weight_bits is None else weights * shape.weight_bits / 8 / gpus


def _attention(shape: ModelShape, body: Mapping[str, object], hidden: int) -> int | None:
    heads = whole(body.get("num_attention_heads"))
    if not heads or shape.kv_heads is None or shape.key_dim is None or shape.full_layers is None:
        return None
    queries = heads * shape.key_dim * (2 if shape.family in _GATED else 1)
    return hidden * (queries + 2 * shape.kv_heads * shape.key_dim) + heads * shape.key_dim * hidden


def _linear(shape: ModelShape, hidden: int) -> int | None:
    """One gated delta net: queries, keys, values and gate in; two numbers a value head; values out; convolution."""
    if not shape.linear_layers:
        return 0
    state = shape.state
    if state is None:
        return None
    values = state.value_heads * state.value_dim
    into = state.channels + values + 2 * state.value_heads
    return hidden * (into + values) + state.channels * state.kernel


def _feed_forward(shape: ModelShape, body: Mapping[str, object], hidden: int) -> int | None:
    """Gate, up and down of one layer, or of all its experts with their router."""
    if shape.family in _DENSE:
        inner = whole(body.get("intermediate_size"))
        return None if inner is None else 3 * hidden * inner
    experts = first(body, *EXPERTS)
    inner = first(body, "moe_intermediate_size", "intermediate_size")
    # Layers that are dense among sparse ones are spelled differently by each family.
    uneven = (whole(body.get("decoder_sparse_step")) or 1) != 1 or bool(body.get("mlp_only_layers"))
    if not experts or not inner or uneven:
        return None
    shared = whole(body.get("shared_expert_intermediate_size")) or 0
    return hidden * (3 * inner * experts + 3 * shared + experts + bool(shared))
