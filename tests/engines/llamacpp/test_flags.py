from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.engines.llamacpp.flags import Flag, dump, load, parse_help
from spectune.engines.llamacpp.knobs import CANONICAL, FLAGS, INERT, KNOBS, RENAMED
from tests.engines.llamacpp.recorded import HELP

FLAGS_READ = (
    ("threads", Flag(("--threads", "-t"), takes=1, env="LLAMA_ARG_THREADS")),
    ("kv-unified", Flag(("--kv-unified", "-kvu"), ("--no-kv-unified", "-no-kvu"), env="LLAMA_ARG_KV_UNIFIED")),
    ("no-host", Flag(("--no-host",), env="LLAMA_ARG_NO_HOST")),
    ("override-tensor", Flag(("--override-tensor", "-ot"), takes=1, env="LLAMA_ARG_OVERRIDE_TENSOR")),
    ("control-vector-layer-range", Flag(("--control-vector-layer-range",), takes=2)),
    ("spec-type", Flag(("--spec-type",), takes=1, env="LLAMA_ARG_SPEC_TYPE")),
    ("metrics", Flag(("--metrics",), env="LLAMA_ARG_ENDPOINT_METRICS")),
    (
        "spec-draft-model",
        Flag(("--spec-draft-model", "--model-draft", "-md"), takes=1, env="LLAMA_ARG_SPEC_DRAFT_MODEL"),
    ),
    (
        "draft-max",
        Flag(
            ("--draft", "--draft-n", "--draft-max"),
            takes=1,
            env="LLAMA_ARG_DRAFT_MAX",
            removed="--spec-draft-n-max or --spec-ngram-mod-n-max",
        ),
    ),
)


@pytest.mark.parametrize(("name", "flag"), FLAGS_READ, ids=[name for name, _ in FLAGS_READ])
def test_help_is_read(name: str, flag: Flag) -> None:
    assert flag in parse_help(HELP)
    assert FLAGS[name] == flag


def test_the_data_file_is_what_help_says() -> None:
    assert load() == parse_help(HELP)
    assert len(load()) == 256


def test_flags_survive_their_data_file() -> None:
    assert dump(load()).count("\n{") == len(load())


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert all(spelling in text for flag in parse_help(text) for spelling in (*flag.on, *flag.off))


def test_knobs_are_flags_that_still_exist() -> None:
    assert not [name for name in KNOBS if FLAGS[name].removed]
    assert KNOBS["spec-draft-model"].aliases == ("model-draft", "md")
    assert KNOBS["n-gpu-layers"].aliases == ("gpu-layers", "ngl")


def test_every_spelling_has_a_canonical_name() -> None:
    assert CANONICAL.keys() == FLAGS.keys()
    assert CANONICAL["ngl"] == "n-gpu-layers"
    assert CANONICAL["no-kvu"] == "kv-unified"
    assert all(FLAGS[name] == FLAGS[spelling] for spelling, name in CANONICAL.items())


def test_renamed_and_inert_flags_are_true_of_this_release() -> None:
    assert not [name for name in RENAMED if name in FLAGS]
    assert all(new.split()[0] in KNOBS for new in RENAMED.values())
    assert all(name in KNOBS for name in INERT)
