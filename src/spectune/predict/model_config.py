"""The shape of a model: what of it decides how much memory its weights, its KV cache and its states take.

Read from a Hugging Face config.json or from the header of a GGUF file. What neither tells is None: a wrong size is
worse than an unknown one, because candidates are left out for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

_PLAIN = frozenset(
    {"llama", "mistral", "mixtral", "phi3", "gemma", "gemma2", "gemma3", "gemma3_text", "gpt_oss", "olmo2", "cohere2"}
    | {"qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe"}
    | {"qwen3_5_moe_text", "glm4", "glm4_moe", "deepseek_v2", "deepseek_v3", "kimi_k2"}
)
"""Families that name their sizes in the usual way and fill in the usual defaults: a head's width is hidden size /
heads, and KV heads are as many as heads, where they are not given."""

_LATENT = frozenset({"deepseek_v2", "deepseek_v3", "kimi_k2"})
"""Families of multi-head latent attention (DeepSeek-V2, 2024, section 2.1): one latent vector a token and layer."""

_WINDOW_EVERYWHERE = frozenset({"mistral", "mixtral", "phi3"})
_WINDOW_EXCEPT_EVERY = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4}
"""Family -> every n-th layer sees everything, the others a window, where the file does not say."""

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
"""Keys under which families give the number of routed experts."""

_KINDS = {"full_attention": "full", "attention": "full", "sliding_attention": "sliding", "linear_attention": "linear"}

_DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}

_BITS = {"fp8": 8.0, "mxfp4": 4.25, "fbgemm_fp8": 8.0}
"""Quantisation method -> bits a weight, block scales included where they count (MXFP4: 8 bits for 32 weights)."""


@dataclass(frozen=True, slots=True)
class LinearState:
    """What a linear-attention layer (gated delta net) remembers of a request, whatever its length.

    Attributes:
        key_heads, value_heads: heads of the recurrent state.
        key_dim, value_dim: width of one head.
        kernel: width of the causal convolution, the current token included.
        element_bytes: of the recurrent state; the convolution's window is kept in the model's own type.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    element_bytes: int

    @property
    def channels(self) -> int:
        """Channels of the convolution: queries, keys and values side by side."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Attributes:
    family: model_type, or the GGUF architecture.
    full_layers, sliding_layers, linear_layers: layers that keep every token, the last `window` tokens, or a state of
        fixed size; None where the kinds can't be told.
    window: tokens a sliding layer sees.
    kv_heads: key-value heads of a layer.
    key_dim, value_dim: width of one head's key and value.
    latent_dim: numbers kept a token and layer by latent attention, rotary part included; None for other attention.
    state: of linear layers; None where there are none or it can't be told.
    experts, experts_per_token: 0 and 0 for a dense model.
    mtp_layers: layers for multi-token prediction that the file declares, beyond the others.
    dtype_bytes: of unquantised weights and activations.
    weight_bits: bits a weight on average; None where the quantisation does not tell.
    context: longest sequence the model was made for, tokens.
    """

    family: str
    full_layers: int | None = None
    sliding_layers: int | None = None
    linear_layers: int | None = None
    window: int | None = None
    kv_heads: int | None = None
    key_dim: int | None = None
    value_dim: int | None = None
    latent_dim: int | None = None
    state: LinearState | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    mtp_layers: int | None = None
    dtype_bytes: int | None = None
    weight_bits: float | None = None
    context: int | None = None

    @property
    def hybrid(self) -> bool:
        """Whether some layers keep a state in place of tokens."""
        return bool(self.linear_layers)


def from_hugging_face(config: Mapping[str, object]) -> ModelShape:
    """The shape that a config.json describes; of a multimodal model, that of its text part.

    Never raises: what is missing, of the wrong type or of an unknown family is None.
    """
    body = text_part(config)
    family = text(body.get("model_type")) or text(config.get("model_type")) or ""
    known = family in _PLAIN
    absent = 0 if known else None
    heads, hidden = whole(body.get("num_attention_heads")), whole(body.get("hidden_size"))
    width = whole(body.get("head_dim"))
    if width is None and known and heads and hidden:
        width = hidden // heads
    kv_heads = whole(body.get("num_key_value_heads"))
    full, sliding, linear = _kinds(family, body)
    latent = _latent(body)
    if family in _LATENT and latent is None:
        full = None
    dtype = _DTYPE_BYTES.get(text(body.get("dtype") or body.get("torch_dtype") or config.get("dtype")) or "")
    return ModelShape(
        family=family,
        full_layers=full,
        sliding_layers=sliding,
        linear_layers=linear,
        window=whole(body.get("sliding_window")) if sliding else None,
        kv_heads=heads if kv_heads is None and known else kv_heads,
        key_dim=width,
        value_dim=width,
        latent_dim=latent,
        state=_state(body) if linear else None,
        experts=first(body, *EXPERTS) or absent,
        experts_per_token=first(body, "num_experts_per_tok", "experts_per_token") or absent,
        mtp_layers=first(body, "num_nextn_predict_layers", "mtp_num_hidden_layers") or absent,
        dtype_bytes=dtype,
        weight_bits=_bits(config, body, dtype),
        context=whole(body.get("max_position_embeddings")),
    )


def from_gguf(header: Mapping[str, object], weights_bytes: int | None = None, weights: int | None = None) -> ModelShape:
    """The shape that the header fields of a GGUF file describe ("llama.block_count": 30, ...).

    Args:
        header: field -> value; arrays are sequences with one entry a layer.
        weights_bytes: size of the tensors in the file.
        weights: number of weights in the file; both together give the bits a weight.
    """
    family = text(header.get("general.architecture")) or ""
    body = {name.removeprefix(f"{family}."): value for name, value in header.items()}
    heads, hidden = whole(body.get("attention.head_count")), whole(body.get("embedding_length"))
    width = hidden // heads if heads and hidden else None
    latent = whole(body.get("attention.kv_lora_rank"))
    rotary = whole(body.get("rope.dimension_count"))
    mtp = whole(body.get("nextn_predict_layers")) or 0
    layers = whole(body.get("block_count"))
    per_layer = body.get("attention.head_count_kv")
    full, sliding, linear = _gguf_kinds(body, per_layer, layers - mtp if layers else None)
    return ModelShape(
        family=family,
        full_layers=full if latent is None or rotary else None,
        sliding_layers=sliding,
        linear_layers=linear,
        window=whole(body.get("attention.sliding_window")) if sliding else None,
        kv_heads=_same_everywhere(per_layer),
        key_dim=whole(body.get("attention.key_length")) or width,
        value_dim=whole(body.get("attention.value_length")) or width,
        latent_dim=latent + rotary if latent and rotary else None,
        experts=whole(body.get("expert_count")) or 0,
        experts_per_token=whole(body.get("expert_used_count")) or 0,
        mtp_layers=mtp,
        weight_bits=8 * weights_bytes / weights if weights_bytes and weights else None,
        context=whole(body.get("context_length")),
    )


def mtp_layer(shape: ModelShape) -> ModelShape:
    """A model's layer for multi-token prediction as a draft model: one layer of full attention, used for every step."""
    return replace(shape, full_layers=1, sliding_layers=0, linear_layers=0, window=None, state=None, mtp_layers=0)


def text_part(config: Mapping[str, object]) -> Mapping[str, object]:
    """The part of a config.json that describes the language model."""
    nested = config.get("text_config")
    return nested if isinstance(nested, Mapping) else config


def _kinds(family: str, body: Mapping[str, object]) -> tuple[int | None, int | None, int | None]:
    """Layers that attend to everything, to a window, and that keep a state; three times None where unknown."""
    layers, interval = whole(body.get("num_hidden_layers")), whole(body.get("full_attention_interval"))
    listed = body.get("layer_types")
    if not layers:
        return None, None, None
    if interval and "linear_num_value_heads" in body:
        full = layers // interval
        return full, 0, layers - full
    if isinstance(listed, Sequence) and not isinstance(listed, str) and len(listed) == layers:
        kinds = [_KINDS.get(str(kind)) for kind in listed]
        if None in kinds:
            return None, None, None
        return kinds.count("full"), kinds.count("sliding"), kinds.count("linear")
    if family not in _PLAIN:
        return None, None, None
    if not body.get("sliding_window") or body.get("use_sliding_window") is False:
        return layers, 0, 0
    if family in _WINDOW_EVERYWHERE:
        return 0, layers, 0
    every = first(body, "sliding_window_pattern", "_sliding_window_pattern") or _WINDOW_EXCEPT_EVERY.get(family)
    if every is None:
        return None, None, None
    return layers // every, layers - layers // every, 0


def _gguf_kinds(
    body: Mapping[str, object], per_layer: object, layers: int | None
) -> tuple[int | None, int | None, int | None]:
    if layers is None or layers < 1:
        return None, None, None
    window, pattern = body.get("attention.sliding_window"), body.get("attention.sliding_window_pattern")
    if isinstance(pattern, Sequence) and len(pattern) >= layers:
        sliding = sum(bool(slides) for slides in pattern[:layers])
        return layers - sliding, sliding, 0
    interval = whole(body.get("full_attention_interval"))
    if interval:
        return layers // interval, 0, layers - layers // interval
    if window or any(name.startswith("ssm.") for name in body):
        return None, None, None
    if isinstance(per_layer, Sequence):
        return (layers, 0, 0) if all(per_layer) and len(per_layer) >= layers else (None, None, None)
    return layers, 0, 0


def _latent(body: Mapping[str, object]) -> int | None:
    rank, rotary = whole(body.get("kv_lora_rank")), whole(body.get("qk_rope_head_dim"))
    return rank + rotary if rank and rotary else None


def _state(body: Mapping[str, object]) -> LinearState | None:
    heads = [whole(body.get(f"linear_num_{name}_heads")) for name in ("key", "value")]
    widths = [whole(body.get(f"linear_{name}_head_dim")) for name in ("key", "value")]
    kernel = whole(body.get("linear_conv_kernel_dim"))
    # Engines keep the recurrent state in 32 bits unless the model asks for less.
    element = _DTYPE_BYTES.get(text(body.get("mamba_ssm_dtype")) or "float32")
    (keys, values), (key_dim, value_dim) = heads, widths
    if keys is None or values is None or key_dim is None or value_dim is None or kernel is None or element is None:
        return None
    return LinearState(keys, values, key_dim, value_dim, kernel, element)


def _bits(config: Mapping[str, object], body: Mapping[str, object], dtype_bytes: int | None) -> float | None:
    quantised = config.get("quantization_config") or body.get("quantization_config")
    if not isinstance(quantised, Mapping):
        return None if quantised or dtype_bytes is None else 8.0 * dtype_bytes
    bits = whole(quantised.get("bits"))
    return float(bits) if bits else _BITS.get(text(quantised.get("quant_method")) or "")


def _same_everywhere(per_layer: object) -> int | None:
    """One number of KV heads for all layers that have any."""
    if isinstance(per_layer, Sequence) and not isinstance(per_layer, str):
        counts = {count for count in per_layer if count}
        return whole(counts.pop()) if len(counts) == 1 else None
    return whole(per_layer)


def first(body: Mapping[str, object], *names: str) -> int | None:
    """The size under the first of several keys that has one."""
    return next((found for name in names if (found := whole(body.get(name))) is not None), None)


def whole(value: object) -> int | None:
    """A size: a whole number above zero, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def text(value: object) -> str | None:
    """A word, without the "torch." that some files put before a type."""
    return value.removeprefix("torch.") if isinstance(value, str) else None
