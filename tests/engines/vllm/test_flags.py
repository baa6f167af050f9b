from __future__ import annotations

import argparse

import pytest

from spectune.domain.knobs import KnobKind
from spectune.engines.vllm import VLLM, parse_help
from spectune.engines.vllm.flags import Flag, load, release, table
from spectune.engines.vllm.speckeys import KEYS
from tests.engines.vllm.recorded import CASES

NAMES = {flag.name for flag in load()}
NEGATIONS = {f"no-{flag.name}" for flag in load() if flag.negation}
HELP = (CASES / "help.txt").read_text("utf-8")


def full_help() -> str:
    """What argparse makes of the recorded flags, each with its line, as --help=all does."""
    parser = argparse.ArgumentParser(prog="vllm serve")
    for flag in load():
        names = [f"--{flag.name}"]
        if flag.negation:
            parser.add_argument(*names, action=argparse.BooleanOptionalAction, help="about")
        elif flag.kind == "switch":
            parser.add_argument(*names, action="store_true", help="Use --other-flag instead.")
        else:
            choices = list(flag.choices) or None
            parser.add_argument(*names, nargs="+" if flag.many else None, choices=choices, help="see --not-a-flag")
    return parser.format_help()


def test_the_recorded_help_is_read() -> None:
    assert parse_help(HELP) == NAMES | NEGATIONS


def test_help_without_usage_is_read() -> None:
    text = full_help()
    assert parse_help(text[text.index("\noptions:") :]) == NAMES | NEGATIONS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "usage: vllm serve [model_tag] [options]\n\nConfig Groups:\n  ModelConfig   Configuration for the model.\n",
        "For example:\n  --max-num-seqs 4 --foo\n",
        "Use --max-num-seqs instead of --max-model-len.\n",
    ],
)
def test_what_lists_no_flags(text: str) -> None:
    assert parse_help(text) == frozenset()


@pytest.mark.parametrize(
    "flag",
    [
        Flag("max-num-seqs", "integer"),
        Flag("max-model-len", "integer", auto=True),
        Flag("tensor-parallel-size", "integer", default=1, aliases=("tp",)),
        Flag("gpu-memory-utilization", "number", default=0.92, aliases=("device-memory-utilization",)),
        Flag("enable-prefix-caching", "switch", negation=True),
        Flag("speculative-config", "json", aliases=("sc",)),
        Flag("cudagraph-capture-sizes", "integer", many=True),
        Flag("disable-log-stats", "switch", default=False),
    ],
    ids=lambda flag: flag.name,
)
def test_recorded_flags(flag: Flag) -> None:
    assert flag in load()
    assert len(load()) == 316


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("0.32.0", (0, 32)), ("v0.26.1+cu130", (0, 26)), ("0.33", (0, 33)), ("dev", None), ("", None), (None, None)],
)
def test_release(version: str | None, numbers: tuple[int, int] | None) -> None:
    assert release(version) == numbers


@pytest.mark.parametrize(("version", "has"), [("0.26.0", False), ("0.32.0", True), ("0.33.0", True), (None, True)])
def test_versions_lack_younger_flags(version: str | None, has: bool) -> None:
    assert ("per-request-spec-decode-metrics" in VLLM(version=version).knobs) is has


def test_the_servers_own_list_counts() -> None:
    found = table(frozenset({"max-num-seqs", "tensor-parallel-size", "new-flag", "no-new-flag"}), "0.26.0")
    assert set(found.flags) == {"max-num-seqs", "tensor-parallel-size", "tp", "new-flag"}
    assert found.flags["new-flag"] == Flag("new-flag", "unknown", negation=True)
    assert found.label == "vLLM 0.26.0"
    assert table(frozenset({"max-num-seqs"})).label == "vLLM (as 0.32.0)"


def test_a_help_without_flags_says_nothing() -> None:
    assert table(frozenset(), "0.26.0") == table(None, "0.26.0")


@pytest.mark.parametrize(
    ("name", "kind", "low", "high"),
    [
        ("gpu-memory-utilization", KnobKind.NUMBER, 0.01, 1),
        ("max-num-seqs", KnobKind.INTEGER, 1, None),
        ("enable-prefix-caching", KnobKind.SWITCH, None, None),
        ("kv-cache-dtype", KnobKind.CHOICE, None, None),
        ("prompt_lookup_max", KnobKind.INTEGER, 1, None),
        ("rejection_sample_method", KnobKind.CHOICE, None, None),
        ("speculative-config.quantization", KnobKind.TEXT, None, None),
    ],
)
def test_knobs(name: str, kind: KnobKind, low: float | None, high: float | None) -> None:
    knob = VLLM().knobs[name]
    assert (knob.kind, knob.low, knob.high) == (kind, low, high)
    assert knob.about


def test_keys_are_no_flags() -> None:
    spellings = {spelling.replace("_", "-") for flag in load() for spelling in (flag.name, *flag.aliases)}
    assert not {key.name for key in KEYS if key.name.replace("_", "-") in spellings}
    assert "fly_window_size" not in VLLM(version="0.32.0").knobs
    assert "fly_window_size" in VLLM(version="0.33.0").knobs
