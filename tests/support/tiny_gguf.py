"""Tiny random models: a real llama-server gets ready with one in under a second."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

_HEADS = 2
_CONTEXT = 8192
_SPREAD = 0.05

_COUNT = struct.Struct("<Q")
_FIELDS_AT = 16
"""Where a file has its number of fields: behind magic, version and number of tensors."""
_KIND = struct.Struct("<I")
_TOKENS = "tokenizer.ggml.tokens"
_WIDTHS = {
    gguf.GGUFValueType.UINT8: 1,
    gguf.GGUFValueType.INT8: 1,
    gguf.GGUFValueType.BOOL: 1,
    gguf.GGUFValueType.UINT16: 2,
    gguf.GGUFValueType.INT16: 2,
    gguf.GGUFValueType.UINT32: 4,
    gguf.GGUFValueType.INT32: 4,
    gguf.GGUFValueType.FLOAT32: 4,
    gguf.GGUFValueType.UINT64: 8,
    gguf.GGUFValueType.INT64: 8,
    gguf.GGUFValueType.FLOAT64: 8,
}


@dataclass(frozen=True, slots=True)
class _Tokenizer:
    """A tokenizer's fields as they stand in a file; the gguf package takes seconds to read and write their long lists.

    Attributes:
        fields: how many they are.
        tokens: size of the vocabulary.
    """

    raw: bytes
    fields: int
    tokens: int


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
    writer = gguf.GGUFWriter(out, "llama")
    _write_shape(writer, layers=layers, hidden=hidden, vocabulary=tokenizer.tokens)
    for name, tensor in _tensors(layers, hidden, tokenizer.tokens, np.random.default_rng(seed)).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    assert writer.fout is not None
    writer.fout[0].write(tokenizer.raw)
    writer.write_tensors_to_file()
    writer.close()
    with out.open("r+b") as file:
        file.seek(_FIELDS_AT)
        (fields,) = _COUNT.unpack(file.read(_COUNT.size))
        file.seek(_FIELDS_AT)
        file.write(_COUNT.pack(fields + tokenizer.fields))


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
def _tokenizer(source: Path) -> _Tokenizer:
    data = source.read_bytes()
    (fields,) = _COUNT.unpack_from(data, _FIELDS_AT)
    at = _FIELDS_AT + _COUNT.size
    found: dict[str, bytes] = {}
    for _ in range(fields):
        begin, at = at, _behind(data, at, gguf.GGUFValueType.STRING)
        name = data[begin + _COUNT.size : at].decode()
        (kind,) = _KIND.unpack_from(data, at)
        at = _behind(data, at + _KIND.size, gguf.GGUFValueType(kind))
        if name.startswith("tokenizer."):
            found[name] = data[begin:at]
    # The list of tokens begins behind its name, its own kind, and the kind of its members.
    (tokens,) = _COUNT.unpack_from(found[_TOKENS], _COUNT.size + len(_TOKENS) + 2 * _KIND.size)
    return _Tokenizer(b"".join(found.values()), len(found), tokens)


def _behind(data: bytes, at: int, kind: gguf.GGUFValueType) -> int:
    """Where a value ends."""
    if kind in _WIDTHS:
        return at + _WIDTHS[kind]
    if kind is gguf.GGUFValueType.STRING:
        return at + _COUNT.size + int(_COUNT.unpack_from(data, at)[0])
    (member,) = _KIND.unpack_from(data, at)
    (length,) = _COUNT.unpack_from(data, at + _KIND.size)
    at += _KIND.size + _COUNT.size
    if member in _WIDTHS:
        return at + int(length) * _WIDTHS[gguf.GGUFValueType(member)]
    for _ in range(length):
        at = _behind(data, at, gguf.GGUFValueType(member))
    return at


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
