from __future__ import annotations

import pytest

from spectune.domain.errors import InputError
from spectune.domain.knobs import Settings
from spectune.engines.sglang.flags import table
from spectune.engines.sglang.settings import arguments, canonical

A, B = table(version="0.5.15"), table(version="0.5.23")
VERSIONS = {"0.5.15": A, "0.5.23": B}

ACCEPTED: tuple[tuple[Settings, Settings], ...] = (
    ({"tp-size": 2}, {"tp-size": 2}),
    ({"--tensor_parallel_size": "2"}, {"tp-size": 2}),
    ({"speculative-draft-model": "/d"}, {"speculative-draft-model-path": "/d"}),
    ({"mem-fraction-static": "0.8"}, {"mem-fraction-static": 0.8}),
    ({"context-length": "32k"}, {"context-length": 32000}),
    ({"context-length": "32Ki"}, {"context-length": 32768}),
    ({"chunked-prefill-size": -1}, {"chunked-prefill-size": -1}),
    ({"enable-mixed-chunk": "true"}, {"enable-mixed-chunk": True}),
    ({"lora-strict-loading": False}, {"lora-strict-loading": False}),
    ({"no-lora-strict-loading": True}, {"lora-strict-loading": False}),
    ({"cuda-graph-bs-decode": "1 2 4"}, {"cuda-graph-bs-decode": "1 2 4"}),
    ({"model-checksum": True}, {"model-checksum": True}),
    ({"served-model-name": "q"}, {"served-model-name": "q"}),
)

REFUSED: tuple[tuple[str, Settings, str, str], ...] = (
    (
        "0.5.23",
        {"cuda-graph-max-bs": 64},
        "SGLang 0.5.23 has no flag 'cuda-graph-max-bs'",
        "'cuda-graph-max-bs-decode'",
    ),
    ("0.5.23", {"mamba-scheduler-strategy": "auto"}, "no flag", "'mamba-radix-cache-strategy'"),
    ("0.5.23", {"disable-piecewise-cuda-graph": True}, "no flag", "'cuda-graph-backend-prefill=disabled'"),
    ("0.5.23", {"speculative-skip-dp-mlp-sync": True}, "no flag", "0.5.15 of SGLang have it"),
    ("0.5.15", {"speculative-use-block-verification": True}, "no flag", "0.5.23 of SGLang have it"),
    ("0.5.15", {"num-speculative-tokens": 3}, "no flag", "'speculative-num-steps'"),
    ("0.5.15", {"max-num-seqs": 3}, "no flag", "'max-running-requests'"),
    ("0.5.15", {"speculative-num-step": 3}, "no flag", "Did you mean 'speculative-num-steps'?"),
    ("0.5.15", {"no-enable-mixed-chunk": True}, "no flag 'no-enable-mixed-chunk'", "Did you mean"),
    ("0.5.15", {"tp-size": 2, "tensor-parallel-size": 2}, "set the same SGLang flag", "Keep one"),
    ("0.5.15", {"cuda-graph-max-bs": 8, "cuda-graph-max-bs-decode": 8}, "set the same SGLang flag", "Keep one"),
    ("0.5.15", {"tp-size": "two"}, "must be a whole number, got 'two'", ""),
    ("0.5.15", {"tp-size": 0}, "at least 1", ""),
    ("0.5.15", {"tp-size": True}, "needs a value, got true", ""),
    ("0.5.15", {"mem-fraction-static": 1.5}, "at most 1", ""),
    ("0.5.15", {"attention-backend": "flashinfr"}, "must be one of triton", "'flashinfer'"),
    ("0.5.15", {"speculative-adaptive": "perhaps"}, "is a switch", ""),
)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("written", "expected"), ACCEPTED, ids=str)
def test_settings_are_made_canonical(version: str, written: Settings, expected: Settings) -> None:
    result = canonical(written, "service.args", VERSIONS[version])
    assert result == expected
    assert [type(value) for value in result.values()] == [type(value) for value in expected.values()]


@pytest.mark.parametrize(("version", "written", "message", "advice"), REFUSED, ids=str)
def test_wrong_settings_are_refused(version: str, written: Settings, message: str, advice: str) -> None:
    with pytest.raises(InputError) as refused:
        canonical(written, "service.args", VERSIONS[version])
    assert refused.value.message.startswith("service.args: ")
    assert message in refused.value.message
    assert advice in refused.value.advice


def test_old_spellings_become_new_ones() -> None:
    assert canonical({"cuda-graph-max-bs": 64}, "service.args", A) == {"cuda-graph-max-bs-decode": 64}


def test_an_old_spelling_stays_where_the_new_one_is_unknown() -> None:
    before = table(frozenset({"cuda-graph-max-bs", "tp-size"}), "0.5.11")
    assert canonical({"cuda-graph-max-bs": 64}, "service.args", before) == {"cuda-graph-max-bs": 64}


def test_exact_names_have_one_spelling() -> None:
    assert canonical({"tp-size": 2}, "candidate", A, exact=True) == {"tp-size": 2}
    with pytest.raises(InputError, match="'tensor-parallel-size' is called 'tp-size'"):
        canonical({"tensor-parallel-size": 2}, "candidate", A, exact=True)


def test_flags_that_only_the_installed_server_knows_take_any_value() -> None:
    own = table(frozenset({"brand-new", "brand-newer"}), "0.5.23")
    assert canonical({"brand-new": True, "brand-newer": "x"}, "candidate", own) == {
        "brand-new": True,
        "brand-newer": "x",
    }


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("mem-fraction-static", 0.8, ("--mem-fraction-static", "0.8")),
        ("enable-mixed-chunk", False, ()),
        ("lora-strict-loading", False, ("--no-lora-strict-loading",)),
        ("cuda-graph-bs-decode", "1 2 4", ("--cuda-graph-bs-decode", "1", "2", "4")),
        ("json-model-override-args", '{"a": 1}', ("--json-model-override-args", '{"a": 1}')),
    ],
)
def test_arguments(name: str, value: bool | int | float | str, words: tuple[str, ...]) -> None:
    assert arguments(name, value, A) == words
