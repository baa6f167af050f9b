from __future__ import annotations

import argparse

import pytest

from spectune.domain.knobs import KnobKind
from spectune.engines.sglang import SGLang, parse_help
from spectune.engines.sglang.flags import RECORDED, Flag, load, nearest, older, table
from spectune.engines.sglang.methods import ALGORITHMS
from tests.engines.sglang.recorded import CASES


def help_of(version: str) -> str:
    """The help text that argparse makes of a version's flags."""
    parser = argparse.ArgumentParser(prog="launch_server.py")
    for flag in load(version):
        names = [f"--{spelling}" for spelling in (flag.name, *flag.aliases)]
        if flag.negation:
            parser.add_argument(*names, action=argparse.BooleanOptionalAction, help="about")
        elif flag.kind == "switch":
            parser.add_argument(*names, action="store_true", help="Use --other-flag instead.")
        else:
            choices = list(flag.choices) or None
            parser.add_argument(*names, nargs="+" if flag.many else None, choices=choices, help="see --not-a-flag")
    return parser.format_help()


@pytest.mark.parametrize("version", RECORDED)
def test_help_is_read(version: str) -> None:
    flags = load(version)
    names = {spelling for flag in flags for spelling in (flag.name, *flag.aliases)}
    negations = {f"no-{flag.name}" for flag in flags if flag.negation}
    assert parse_help(help_of(version)) == names | negations


@pytest.mark.parametrize(
    ("version", "count", "flag"),
    [
        ("0.5.15", 437, Flag("tp-size", "integer", default=1, aliases=("tensor-parallel-size",))),
        ("0.5.15", 437, Flag("cuda-graph-max-bs", "integer", becomes="cuda-graph-max-bs-decode")),
        ("0.5.15", 437, Flag("cuda-graph-bs-decode", "text", many=True)),
        ("0.5.15", 437, Flag("speculative-skip-dp-mlp-sync", "switch", default=False)),
        ("0.5.23", 531, Flag("speculative-use-block-verification", "switch", default=False)),
        ("0.5.23", 531, Flag("dllm-fdfo", "switch", default=True, negation=True)),
        (
            "0.5.23",
            531,
            Flag("speculative-ngram-match-type", "choice", choices=("BFS", "PROB"), default="BFS"),
        ),
    ],
    ids=str,
)
def test_recorded_flags(version: str, count: int, flag: Flag) -> None:
    assert len(load(version)) == count
    assert flag in load(version)


def test_what_differs_between_versions() -> None:
    a, b = ({flag.name for flag in load(version)} for version in RECORDED)
    gone = {"cuda-graph-max-bs", "cuda-graph-bs", "mamba-scheduler-strategy", "speculative-skip-dp-mlp-sync"}
    new = {"speculative-use-block-verification", "speculative-draft-kv-cache-dtype", "speculative-draft-sink-size"}
    assert gone <= a - b
    assert new <= b - a
    assert {"cuda-graph-max-bs-decode", "mamba-radix-cache-strategy"} <= a & b


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (None, "0.5.23"),
        ("0.5.11", "0.5.15"),
        ("0.5.15", "0.5.15"),
        ("0.5.15.post1", "0.5.15"),
        ("0.5.18", "0.5.15"),
        ("0.5.20", "0.5.23"),
        ("v0.5.23+sim", "0.5.23"),
        ("0.6.0", "0.5.23"),
        ("1.0", "0.5.23"),
        ("main", "0.5.23"),
    ],
)
def test_the_nearest_version(version: str | None, expected: str) -> None:
    assert nearest(version) == expected


@pytest.mark.parametrize("version", RECORDED)
def test_a_help_tells_its_version(version: str) -> None:
    assert nearest(None, parse_help(help_of(version))) == version


def test_older() -> None:
    assert older("0.5.11", "0.5.15")
    assert not older("0.5.15", "0.5.15")
    assert not older(None, "0.5.15")


def test_installed_flags_cut_and_complete_the_list() -> None:
    installed = frozenset({"tp-size", "speculative-algorithm", "brand-new", "no-dllm-fdfo", "dllm-fdfo"})
    flags = table(installed, "0.5.23").flags
    assert set(flags) == {"tp-size", "tensor-parallel-size", "speculative-algorithm", "brand-new", "dllm-fdfo"}
    assert flags["brand-new"].kind == "unknown"


def test_a_help_without_flags_says_nothing() -> None:
    assert table(frozenset(), "0.5.15") == table(None, "0.5.15")


@pytest.mark.parametrize("version", RECORDED)
def test_every_algorithm_has_its_flags(version: str) -> None:
    known = {name for recorded in RECORDED for name in table(version=recorded).flags}
    assert all(kind.settings <= known for kind in ALGORITHMS.values())


@pytest.mark.parametrize(
    ("name", "kind", "low", "default"),
    [
        ("speculative-num-steps", KnobKind.INTEGER, 1, None),
        ("speculative-num-draft-tokens", KnobKind.INTEGER, 2, None),
        ("mem-fraction-static", KnobKind.NUMBER, 0.01, None),
        ("speculative-attention-mode", KnobKind.CHOICE, None, "prefill"),
        ("speculative-ngram-capacity", KnobKind.INTEGER, 1, 10_000_000),
        ("speculative-adaptive", KnobKind.SWITCH, None, False),
    ],
)
def test_knobs(name: str, kind: KnobKind, low: float | None, default: object) -> None:
    knob = SGLang().knobs[name]
    assert (knob.kind, knob.low, knob.default) == (kind, low, default)
    assert knob.about
    assert knob.restart


def test_old_spellings_are_aliases() -> None:
    assert SGLang(version="0.5.15").knobs["cuda-graph-max-bs-decode"].aliases == ("cuda-graph-max-bs",)
    assert SGLang(version="0.5.23").knobs["cuda-graph-max-bs-decode"].aliases == ()


def test_the_real_help_lists_the_recorded_flags() -> None:
    listed = parse_help((CASES / "help.txt").read_text("utf-8"))
    hidden = {"forward-pass-metrics-ipc-name", "forward-pass-metrics-worker-id", "speculative-dflash-draft-window-size"}
    assert {flag.name for flag in load("0.5.15")} - listed == hidden
    assert "no-such-flag" not in listed
