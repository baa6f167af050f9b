from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.predict.model_config import LinearState, from_gguf, from_hugging_face
from spectune.predict.model_weights import count_weights, weight_bytes
from tests.predict.models import DEEPSEEK_V3, GEMMA2, SMOLLM2, qwen35_moe

GIB = 1 << 30


def test_grouped_queries_with_the_width_left_out() -> None:
    shape = from_hugging_face(SMOLLM2)
    assert (shape.full_layers, shape.sliding_layers, shape.linear_layers) == (30, 0, 0)
    assert (shape.kv_heads, shape.key_dim, shape.value_dim) == (3, 64, 64)
    assert (shape.experts, shape.mtp_layers, shape.dtype_bytes, shape.weight_bits) == (0, 0, 2, 16.0)
    assert shape.context == 8192
    assert not shape.hybrid


def test_kv_heads_are_as_many_as_heads_where_they_are_left_out() -> None:
    alone = {name: value for name, value in SMOLLM2.items() if name != "num_key_value_heads"}
    assert from_hugging_face(alone).kv_heads == 9


def test_hybrid_layers_and_their_state_are_read_from_the_text_part() -> None:
    shape = from_hugging_face(qwen35_moe(48))
    assert shape.hybrid
    assert (shape.full_layers, shape.sliding_layers, shape.linear_layers) == (12, 0, 36)
    assert shape.state == LinearState(16, 64, 128, 128, kernel=4, element_bytes=4)
    assert shape.state.channels == 12288
    assert (shape.experts, shape.experts_per_token, shape.mtp_layers) == (256, 8, 1)


def test_a_state_of_half_the_size_where_the_model_asks_for_it() -> None:
    config = qwen35_moe(8)
    text = config["text_config"]
    assert isinstance(text, dict)
    shape = from_hugging_face({**config, "text_config": {**text, "mamba_ssm_dtype": "bfloat16"}})
    assert shape.state is not None
    assert shape.state.element_bytes == 2


def test_latent_attention() -> None:
    shape = from_hugging_face(DEEPSEEK_V3)
    assert (shape.latent_dim, shape.full_layers, shape.mtp_layers, shape.weight_bits) == (576, 61, 1, 8.0)


@pytest.mark.parametrize(
    ("changes", "kinds", "window"),
    [
        ({}, (13, 13, 0), 4096),
        ({"layer_types": ["sliding_attention"] * 20 + ["full_attention"] * 6}, (6, 20, 0), 4096),
        ({"model_type": "mistral"}, (0, 26, 0), 4096),
        ({"model_type": "mistral", "sliding_window": None}, (26, 0, 0), None),
        ({"model_type": "qwen2", "use_sliding_window": False}, (26, 0, 0), None),
        ({"model_type": "qwen2", "use_sliding_window": True}, (None, None, None), None),
        ({"model_type": "gemma3_text"}, (4, 22, 0), 4096),
        ({"model_type": "gemma3_text", "sliding_window_pattern": 2}, (13, 13, 0), 4096),
        ({"layer_types": ["mamba"] * 26}, (None, None, None), None),
        ({"layer_types": ["full_attention"]}, (13, 13, 0), 4096),
        ({"model_type": "never_seen"}, (None, None, None), None),
        ({"num_hidden_layers": "26"}, (None, None, None), None),
    ],
)
def test_kinds_of_layers(changes: dict[str, object], kinds: tuple[int | None, ...], window: int | None) -> None:
    shape = from_hugging_face({**GEMMA2, **changes})
    assert (shape.full_layers, shape.sliding_layers, shape.linear_layers) == kinds
    assert shape.window == window


def test_of_an_unknown_family_only_what_is_written_is_taken() -> None:
    config = {name: value for name, value in SMOLLM2.items() if name != "num_key_value_heads"}
    shape = from_hugging_face({**config, "model_type": "never_seen"})
    assert (shape.full_layers, shape.kv_heads, shape.key_dim, shape.experts, shape.mtp_layers) == (None,) * 5


@pytest.mark.parametrize(
    ("quantised", "bits"),
    [
        (None, 16.0),
        ({"quant_method": "fp8"}, 8.0),
        ({"quant_method": "awq", "bits": 4}, 4.0),
        ({"quant_method": "mxfp4"}, 4.25),
        ({"quant_method": "someone's own"}, None),
        ("fp8", None),
    ],
)
def test_bits_a_weight(quantised: object, bits: float | None) -> None:
    assert from_hugging_face({**SMOLLM2, "quantization_config": quantised}).weight_bits == bits


@given(
    st.dictionaries(
        st.sampled_from([*SMOLLM2, *DEEPSEEK_V3, "layer_types", "sliding_window", "text_config", "bits"]),
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.lists(st.text()), st.just(dict(SMOLLM2))),
    )
)
def test_any_config_is_read_without_an_error(config: dict[str, object]) -> None:
    shape = from_hugging_face(config)
    assert shape.full_layers is None or shape.full_layers >= 0
    count_weights(config)


LLAMA_GGUF = {
    "general.architecture": "llama",
    "llama.block_count": 30,
    "llama.embedding_length": 576,
    "llama.attention.head_count": 9,
    "llama.attention.head_count_kv": 3,
    "llama.context_length": 8192,
}


def test_a_gguf_header() -> None:
    shape = from_gguf(LLAMA_GGUF, weights_bytes=144_811_904, weights=134_515_008)
    assert (shape.family, shape.full_layers, shape.kv_heads, shape.key_dim) == ("llama", 30, 3, 64)
    assert shape.weight_bits == pytest.approx(8.61, abs=0.01)


@pytest.mark.parametrize(
    ("changes", "kinds", "kv_heads"),
    [
        ({"llama.attention.head_count_kv": [3] * 30}, (30, 0, 0), 3),
        ({"llama.attention.head_count_kv": [3] * 15 + [0] * 15}, (None, None, None), 3),
        ({"llama.attention.head_count_kv": [3] * 15 + [6] * 15}, (30, 0, 0), None),
        ({"llama.nextn_predict_layers": 1}, (29, 0, 0), 3),
        ({"llama.attention.sliding_window": 512}, (None, None, None), 3),
        ({"llama.attention.sliding_window_pattern": [True, False] * 15}, (15, 15, 0), 3),
        ({"llama.ssm.state_size": 128}, (None, None, None), 3),
        ({"llama.ssm.state_size": 128, "llama.full_attention_interval": 3}, (10, 0, 20), 3),
    ],
)
def test_kinds_of_layers_in_gguf(
    changes: dict[str, object], kinds: tuple[int | None, ...], kv_heads: int | None
) -> None:
    shape = from_gguf({**LLAMA_GGUF, **changes})
    assert (shape.full_layers, shape.sliding_layers, shape.linear_layers) == kinds
    assert shape.kv_heads == kv_heads


@given(
    st.dictionaries(
        st.sampled_from([*LLAMA_GGUF, "llama.attention.sliding_window_pattern", "llama.attention.kv_lora_rank"]),
        st.one_of(st.none(), st.integers(), st.text(), st.lists(st.integers())),
    )
)
def test_of_any_gguf_header_only_sizes_that_it_has_are_read(changes: dict[str, object]) -> None:
    header = {**LLAMA_GGUF, **changes}
    shape = from_gguf(header)
    sizes = [getattr(shape, field.name) for field in fields(shape) if field.name not in {"family", "state"}]
    assert all(size is None or (type(size) is int and size >= 0) for size in sizes)
    assert shape.context in (None, header["llama.context_length"])
    kinds = (shape.full_layers, shape.sliding_layers, shape.linear_layers)
    counted = [layers for layers in kinds if layers is not None]
    assert len(counted) < 3 or sum(counted) == header["llama.block_count"]


@pytest.mark.parametrize(
    ("layers", "gpus", "model_gib", "mtp_gib"),
    [(8, 1, 38.07, 5.26), (48, 2, 112.72, 2.64)],  # "mem usage" of SGLang 0.5.15 loading these models
)
def test_weights_take_what_an_engine_took_for_them(layers: int, gpus: int, model_gib: float, mtp_gib: float) -> None:
    config = qwen35_moe(layers)
    shape, counted = from_hugging_face(config), count_weights(config)
    assert counted is not None
    model, mtp = weight_bytes(counted.model, shape, gpus), weight_bytes(counted.mtp, shape, gpus)
    assert model is not None
    assert mtp is not None
    assert model / GIB == pytest.approx(model_gib, rel=0.003)
    assert mtp / GIB == pytest.approx(mtp_gib, rel=0.005)


def test_weights_of_a_small_model() -> None:
    counted = count_weights(SMOLLM2)
    assert counted is not None
    assert counted.model == pytest.approx(134_515_008, rel=1e-3)


@pytest.mark.parametrize(
    "changes",
    [{"model_type": "never_seen"}, {"model_type": "qwen3_moe"}, {"vocab_size": None}, {"intermediate_size": None}],
)
def test_weights_are_not_guessed(changes: dict[str, object]) -> None:
    assert count_weights({**SMOLLM2, **changes}) is None


def test_bytes_of_weights_are_unknown_with_an_unknown_quantisation() -> None:
    shape = from_hugging_face({**SMOLLM2, "quantization_config": {"quant_method": "?"}})
    assert weight_bytes(1000, shape) is None
