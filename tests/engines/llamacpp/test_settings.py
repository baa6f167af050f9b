from __future__ import annotations

import pytest

from spectune.domain.errors import InputError
from spectune.domain.knobs import Settings
from spectune.engines.llamacpp.settings import arguments, canonical

ACCEPTED: tuple[tuple[Settings, Settings], ...] = (
    ({"threads": 2}, {"threads": 2}),
    ({"t": "2"}, {"threads": 2}),
    ({"--ctx_size": 4096.0}, {"ctx-size": 4096}),
    ({"-md": "/d.gguf"}, {"spec-draft-model": "/d.gguf"}),
    ({"flash-attn": True}, {"flash-attn": "on"}),
    ({"fa": False}, {"flash-attn": "off"}),
    ({"no-kv-unified": True}, {"kv-unified": False}),
    ({"no-kv-unified": False}, {"kv-unified": True}),
    ({"nocb": True}, {"cont-batching": False}),
    ({"kv-unified": "off"}, {"kv-unified": False}),
    ({"no-host": True}, {"no-host": True}),
    ({"n-gpu-layers": 99}, {"n-gpu-layers": 99}),
    ({"ngl": "all"}, {"n-gpu-layers": "all"}),
    ({"spec-draft-p-min": 1}, {"spec-draft-p-min": 1.0}),
    ({"top-k": 20}, {"top-k": 20}),
    ({"control-vector-layer-range": "1 5"}, {"control-vector-layer-range": "1 5"}),
)

REFUSED: tuple[tuple[Settings, str, str], ...] = (
    ({"thread": 2}, "no flag 'thread'", "'threads'"),
    ({"spec-draft-nmax": 2}, "no flag 'spec-draft-nmax'", "'spec-draft-n-max'"),
    ({"draft-model": "/d"}, "no flag 'draft-model'", "'spec-draft-model'"),
    ({"no-mmap": True}, "no flag 'no-mmap'", "'load-mode none'"),
    ({"spec-draft-conf-min": 0.5}, "no flag", "'spec-draft-p-min'"),
    ({"draft-max": 4}, "removed 'draft-max'", "--spec-draft-n-max"),
    ({"spec-ngram-size-n": 4}, "removed", "--spec-ngram-*-size-n"),
    ({"t": 2, "threads": 3}, "'threads' and 't' set the same llama-server flag", ""),
    ({"kv-unified": True, "no-kvu": True}, "set the same", ""),
    ({"threads": "many"}, "'threads' must be a whole number, got 'many'", ""),
    ({"threads": True}, "must be a whole number", ""),
    ({"spec-draft-p-min": 1.5}, "at most 1", ""),
    ({"spec-ngram-mod-n-match": 0}, "at least 1", ""),
    ({"cache-type-k": "q9_9"}, "one of f32, f16", ""),
    ({"cont-batching": "maybe"}, "is a switch", ""),
    ({"model-url": True}, "needs a value", ""),
    ({"control-vector-layer-range": "1"}, "two values", ""),
)


@pytest.mark.parametrize(("written", "expected"), ACCEPTED, ids=str)
def test_settings_are_made_canonical(written: Settings, expected: Settings) -> None:
    result = canonical(written, "service.args")
    assert result == expected
    assert [type(value) for value in result.values()] == [type(value) for value in expected.values()]


@pytest.mark.parametrize(("written", "message", "advice"), REFUSED, ids=str)
def test_wrong_settings_are_refused(written: Settings, message: str, advice: str) -> None:
    with pytest.raises(InputError) as refused:
        canonical(written, "service.args")
    assert refused.value.message.startswith("service.args: ")
    assert message in refused.value.message
    assert advice in refused.value.advice


def test_exact_names_have_one_spelling() -> None:
    assert canonical({"threads": 2}, "candidate", exact=True) == {"threads": 2}
    with pytest.raises(InputError, match="'t' is called 'threads'"):
        canonical({"t": 2}, "candidate", exact=True)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("threads", 2, ("--threads", "2")),
        ("n-gpu-layers", "all", ("--n-gpu-layers", "all")),
        ("kv-unified", True, ("--kv-unified",)),
        ("kv-unified", False, ("--no-kv-unified",)),
        ("no-host", True, ("--no-host",)),
        ("no-host", False, ()),
        ("control-vector-layer-range", "1 5", ("--control-vector-layer-range", "1", "5")),
    ],
)
def test_arguments(name: str, value: bool | int | str, words: tuple[str, ...]) -> None:
    assert arguments(name, value) == words
