"""Tiny random models: a real llama-server gets ready with one in under a second."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

_HEADS = 2
_CONTEXT = 8192
_SPREAD = 0.05


@dataclass(frozen=True, slots=True)
class _Entry:
    kind: gguf.GGUFValueType
    inner: gguf.GGUFValueType | None
    value: Any


Matrix = npt.NDArray[np.float32]


def make_tiny(source: Path, out: Path, *, layers: int = 2, hidden: int = 64, seed: int = 0) -> None:
    """Writes a Llama GGUF with random weights and the tokenizer of another GGUF.

    Models made from one source share a vocabulary, so that one can draft for another. Models of other seeds disagree
    about nearly every token; equal seeds and sizes agree about all.

    Args:
        source: GGUF whose tokenizer is taken.
        hidden: width; a multiple of 4.
    """
    tokenizer = _tokenizer(source)
    vocabulary = len(tokenizer["tokenizer.ggml.tokens"].value)
    writer = gguf.GGUFWriter(out, "llama")
    _write_shape(writer, layers=layers, hidden=hidden, vocabulary=vocabulary)
    for key, entry in tokenizer.items():
        writer.add_key_value(key, entry.value, entry.kind, sub_type=entry.inner)
    for name, tensor in _tensors(layers, hidden, vocabulary, np.random.default_rng(seed)).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_shape(writer: gguf.GGUFWriter, *, layers: int, hidden: int, vocabulary: int) -> None:
    writer.add_name("tiny-random")
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(2 * hidden)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(hidden // _HEADS)
    writer.add_rope_freq_base(100_000.0)
    writer.add_vocab_size(vocabulary)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


@cache
def _tokenizer(source: Path) -> dict[str, _Entry]:
    """The tokenizer of a GGUF. Reading one takes seconds, so that it is done once for a pair."""
    entries = {}
    for key, field in gguf.GGUFReader(source).fields.items():
        if key.startswith("tokenizer."):
            kind = field.types[0]
            inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            entries[key] = _Entry(kind, inner, field.contents())
    return entries


def _tensors(layers: int, hidden: int, vocabulary: int, rng: np.random.Generator) -> dict[str, Matrix]:
    def noise(rows: int, columns: int) -> Matrix:
        return rng.normal(scale=_SPREAD, size=(rows, columns)).astype(np.float32)

    ones = np.ones(hidden, np.float32)
    shared = hidden // _HEADS
    wide = 2 * hidden
    tensors = {"token_embd.weight": noise(vocabulary, hidden), "output_norm.weight": ones}
    for layer in range(layers):
        block = f"blk.{layer}"
        tensors |= {
            f"{block}.attn_norm.weight": ones,
            f"{block}.attn_q.weight": noise(hidden, hidden),
            f"{block}.attn_k.weight": noise(shared, hidden),
            f"{block}.attn_v.weight": noise(shared, hidden),
            f"{block}.attn_output.weight": noise(hidden, hidden),
            f"{block}.ffn_norm.weight": ones,
            f"{block}.ffn_gate.weight": noise(wide, hidden),
            f"{block}.ffn_up.weight": noise(wide, hidden),
            f"{block}.ffn_down.weight": noise(hidden, wide),
        }
    return tensors
