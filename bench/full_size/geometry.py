"""Bytes and operations of one step of the 122B-A10B geometry on one of its GPUs, counted from the model's shape.

The shape is that of Qwen3.5-122B-A10B but for its vocabulary, which is that of the tokenizer at hand: 48 layers, every
fourth with full attention and the others with gated linear attention, 256 experts of which 8 answer each token, one
expert shared by all, and one layer more that drafts (MTP). Tensor parallelism halves all matrices but the router.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

BF16, FP32 = 2, 4


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes are in elements; `gpus` share every matrix."""

    hidden: int = 3072
    layers: int = 48
    full_every: int = 4
    experts: int = 256
    active: int = 8
    expert_width: int = 1024
    shared_width: int = 1024
    query_heads: int = 32
    kv_heads: int = 2
    head: int = 256
    linear_key: int = 16 * 128
    linear_value: int = 64 * 128
    linear_head: int = 128
    convolution: int = 4
    vocabulary: int = 49_152
    gpus: int = 2

    @property
    def full_layers(self) -> int:
        return self.layers // self.full_every

    @property
    def linear_layers(self) -> int:
        return self.layers - self.full_layers

    @property
    def expert_bytes(self) -> int:
        """Of one expert of one layer on one GPU: gate, up and down."""
        return 3 * self.hidden * self.expert_width * BF16 // self.gpus

    def distinct(self, tokens: float) -> float:
        """Experts of a layer that so many tokens call, if each token draws its own at random: E (1 - (1 - k/E)^n)."""
        return self.experts * (1 - math.pow(1 - self.active / self.experts, tokens))

    def expert_traffic(self, tokens: float) -> float:
        """Bytes of expert weights that one layer must read for so many tokens."""
        return self.distinct(tokens) * self.expert_bytes

    def expert_operations(self, tokens: float) -> float:
        """Multiplications and additions of one layer's experts on one GPU."""
        return 2.0 * tokens * self.active * 3 * self.hidden * self.expert_width / self.gpus

    @property
    def _full_attention(self) -> float:
        """Bytes of one layer's projections: queries with their gates, keys, values, output."""
        queries = self.query_heads * self.head
        return BF16 * self.hidden * (2 * queries + 2 * self.kv_heads * self.head + queries) / self.gpus

    @property
    def _linear_attention(self) -> float:
        """Bytes of one layer's projections: queries, keys, values and gates, decay and step, output."""
        heads = self.linear_value // self.linear_head
        wide = 2 * self.linear_key + 2 * self.linear_value
        return BF16 * self.hidden * (wide + 2 * heads + self.linear_value) / self.gpus

    @property
    def _beside_experts(self) -> float:
        """Bytes of one layer's router, which every GPU holds whole, and shared expert."""
        return BF16 * self.hidden * (self.experts + 3 * self.shared_width / self.gpus)

    @property
    def _head(self) -> float:
        return BF16 * self.hidden * self.vocabulary / self.gpus

    @property
    def dense(self) -> float:
        """Bytes of weights that every step reads, whatever the batch."""
        attention = self.full_layers * self._full_attention + self.linear_layers * self._linear_attention
        return attention + self.layers * self._beside_experts + self._head

    @property
    def state(self) -> float:
        """Bytes of one request's recurrent state (FP32) and convolution on one GPU."""
        heads = self.linear_value // self.linear_head
        matrix = heads * self.linear_head * self.linear_head * FP32
        window = (2 * self.linear_key + self.linear_value) * (self.convolution - 1) * BF16
        return self.linear_layers * (matrix + window) / self.gpus

    def kv(self, context: float) -> float:
        """Bytes of one request's keys and values on one GPU."""
        return self.full_layers * 2 * self.kv_heads * self.head * BF16 * context / self.gpus

    def target(self, batch: float, depth: int, context: float) -> float:
        """Bytes that verifying must move: weights once, each request's context read, its state read and written."""
        tokens = batch * (depth + 1)
        return self.dense + self.layers * self.expert_traffic(tokens) + batch * (self.kv(context) + 2 * self.state)

    def draft(self, batch: float, context: float) -> float:
        """Bytes that one pass of the drafting layer must move."""
        layer = self._full_attention + self._beside_experts + self.expert_traffic(batch)
        join = BF16 * 2 * self.hidden * self.hidden / self.gpus
        return layer + join + self._head + batch * self.kv(context) / self.full_layers

    def step(self, batch: float, depth: int, context: float) -> float:
        """Bytes of one whole step: so many drafting passes, then one verification."""
        return depth * self.draft(batch, context) + self.target(batch, depth, context)


def tokens_a_step(share: float, depth: int) -> float:
    """Tokens that a step emits where every drafted position is accepted with the same probability."""
    return sum(share**position for position in range(depth + 1))
