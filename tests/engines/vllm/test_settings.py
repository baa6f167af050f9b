from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.errors import InputError
from spectune.domain.knobs import KnobValue, Settings
from spectune.engines.vllm.flags import load, table
from spectune.engines.vllm.settings import arguments, canonical

TABLE = table(version="0.32.0")
OLD = table(version="0.26.0")

ACCEPTED: tuple[tuple[Settings, Settings], ...] = (
    ({"tensor-parallel-size": 2}, {"tensor-parallel-size": 2}),
    ({"-tp": "2"}, {"tensor-parallel-size": 2}),
    ({"--tensor_parallel_size": "2"}, {"tensor-parallel-size": 2}),
    ({"gpu-memory-utilization": "0.8"}, {"gpu-memory-utilization": 0.8}),
    ({"device-memory-utilization": 0.8}, {"gpu-memory-utilization": 0.8}),
    ({"max-model-len": "32k"}, {"max-model-len": 32000}),
    ({"max-model-len": "32K"}, {"max-model-len": 32768}),
    ({"max-num-batched-tokens": "25.6k"}, {"max-num-batched-tokens": 25600}),
    ({"max-model-len": -1}, {"max-model-len": "auto"}),
    ({"max-model-len": "AUTO"}, {"max-model-len": "auto"}),
    ({"enable-prefix-caching": False}, {"enable-prefix-caching": False}),
    ({"no-enable-prefix-caching": True}, {"enable-prefix-caching": False}),
    ({"no_enable_prefix_caching": "true"}, {"enable-prefix-caching": False}),
    ({"cudagraph-capture-sizes": "1 2 4"}, {"cudagraph-capture-sizes": "1 2 4"}),
    ({"compilation-config": '{"mode":3}'}, {"compilation-config": '{"mode": 3}'}),
    ({"compilation-config.cudagraph_mode": "FULL"}, {"compilation-config.cudagraph_mode": "FULL"}),
    ({"compilation_config.pass-config.x": True}, {"compilation-config.pass_config.x": True}),
    ({"sc": '{"method":"ngram"}'}, {"speculative-config": '{"method": "ngram"}'}),
    ({"prompt-lookup-max": "4"}, {"prompt_lookup_max": 4}),
    ({"speculative_config.prompt_lookup_max": 4}, {"prompt_lookup_max": 4}),
    ({"speculative-config.quantization": "fp8"}, {"speculative-config.quantization": "fp8"}),
    ({"quantization": "fp8"}, {"quantization": "fp8"}),
    (
        {"num_speculative_tokens_per_batch_size": "[[1,2,3]]"},
        {"num_speculative_tokens_per_batch_size": "[[1, 2, 3]]"},
    ),
)

REFUSED: tuple[tuple[Settings, str, str], ...] = (
    ({"max-num-seq": 3}, "vLLM 0.32.0 has no flag 'max-num-seq'", "Did you mean 'max-num-seqs'?"),
    ({"mem-fraction-static": 0.8}, "no flag", "'gpu-memory-utilization'"),
    ({"num-speculative-tokens": 3}, "no flag", "'speculative-config'"),
    ({"no-max-num-seqs": True}, "no flag", "Did you mean"),
    ({"max-num-seqs.x": 1}, "no flag", "has no parts"),
    ({"tp": 2, "tensor-parallel-size": 2}, "set the same vLLM flag", "Keep one"),
    ({"tensor-parallel-size": "two"}, "must be a whole number, got 'two'", ""),
    ({"tensor-parallel-size": 0}, "at least 1", ""),
    ({"tensor-parallel-size": True}, "needs a value, got true", ""),
    ({"gpu-memory-utilization": 1.5}, "at most 1", ""),
    ({"prompt_lookup_max": 0}, "at least 1", ""),
    ({"prompt_lookup_max": True}, "needs a value", ""),
    ({"enable-prefix-caching": "maybe"}, "is a switch", "true or false"),
    ({"kv-cache-dtype": "fp9"}, "must be one of", "Did you mean 'fp8'?"),
    ({"rejection_sample_method": "blok"}, "must be one of", "'block'"),
    ({"speculative-config": "{method: ngram}"}, "must be JSON", "quotes"),
    ({"compilation-config": "[" * 100000}, "must be JSON", "quotes"),
    ({"compilation-config": "{}", "compilation-config.mode": 3}, "given whole and in parts", "Keep one"),
    ({"cudagraph-capture-sizes": True}, "one or more values", ""),
)


@pytest.mark.parametrize(("written", "expected"), ACCEPTED, ids=str)
def test_accepted(written: Settings, expected: Settings) -> None:
    found = canonical(written, "service.args", TABLE)
    assert found == expected
    assert [type(value) for value in found.values()] == [type(value) for value in expected.values()]
    assert canonical(found, "candidate", TABLE, exact=True) == found


@pytest.mark.parametrize(("written", "message", "advice"), REFUSED, ids=lambda value: str(value)[:60])
def test_refused(written: Settings, message: str, advice: str) -> None:
    with pytest.raises(InputError, match=r"service\.args") as refused:
        canonical(written, "service.args", TABLE)
    assert message in refused.value.message
    assert advice in refused.value.advice


def test_a_younger_flag_is_named_as_such() -> None:
    with pytest.raises(InputError, match=r"vLLM 0\.26\.0 has no flag") as refused:
        canonical({"per-request-spec-decode-metrics": "summary"}, "service.args", OLD)
    assert "vLLM 0.32.0 has it" in refused.value.advice


@pytest.mark.parametrize("written", ["tp", "max_num_seqs", "speculative-config.prompt_lookup_max", "--seed"])
def test_candidates_name_settings_in_one_way(written: str) -> None:
    with pytest.raises(InputError, match="is called"):
        canonical({written: 4}, "candidate", TABLE, exact=True)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("max-num-seqs", 4, ("--max-num-seqs", "4")),
        ("enable-prefix-caching", False, ("--no-enable-prefix-caching",)),
        ("cudagraph-capture-sizes", "1 2 4", ("--cudagraph-capture-sizes", "1", "2", "4")),
        ("compilation-config.mode", 3, ("--compilation-config.mode", "3")),
        ("compilation-config.pass_config.x", True, ("--compilation-config.pass_config.x", "true")),
    ],
)
def test_arguments(name: str, value: KnobValue, words: tuple[str, ...]) -> None:
    assert arguments(name, value, TABLE) == words


any_value = st.one_of(st.booleans(), st.integers(), st.floats(), st.text())


def taken(name: str, value: KnobValue) -> dict[str, KnobValue] | InputError:
    try:
        return canonical({name: value}, "service.args", TABLE)
    except InputError as refused:
        return refused


@given(st.sampled_from([flag.name for flag in load()]), any_value)
def test_any_value_is_taken_or_refused(name: str, value: KnobValue) -> None:
    found = taken(name, value)
    if isinstance(found, InputError):
        assert name in found.message
    else:
        assert list(found) == [name]
        assert all(isinstance(word, str) for word in arguments(name, found[name], TABLE))


@given(st.text(), any_value)
def test_any_name_is_known_or_refused(name: str, value: KnobValue) -> None:
    found = taken(name, value)
    if isinstance(found, InputError):
        assert f"'{name}'" in found.message
    else:
        assert len(found) == 1
