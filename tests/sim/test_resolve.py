from __future__ import annotations

import json
from pathlib import Path

import pytest

from spectune.sim import library
from spectune.sim.model import Profile
from spectune.sim.sglang import capacity, faults, flags
from spectune.sim.sglang.resolve import Refused, Resolution, graph_sizes, resolve

HAND_RUN = library.load("hand-run")
DENSE = library.load("dense-8b-eagle3")
RESET = "Max running requests is reset to 48"
ADJUSTED = "speculative_num_draft_tokens is adjusted to"


def resolved(command: str, profile: Profile = HAND_RUN, fault: str = "") -> Resolution:
    args, _ = flags.parse(["--model", "m", *command.split()])
    return resolve(args, profile, faults.parse(fault))


def shape(resolution: Resolution) -> tuple[object, ...]:
    args = resolution.args
    names = ("algorithm", "num_steps", "eagle_topk", "num_draft_tokens")
    return tuple(args[f"speculative_{name}"] for name in names)


CHAIN = "--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1"


@pytest.mark.parametrize(
    ("command", "profile", "seen", "notes"),
    [
        ("", HAND_RUN, (None, None, None, None), []),
        (f"{CHAIN} --speculative-num-draft-tokens 4", HAND_RUN, ("EAGLE", 3, 1, 4), [RESET]),
        (f"{CHAIN} --speculative-num-draft-tokens 8", HAND_RUN, ("EAGLE", 3, 1, 4), [RESET, ADJUSTED]),
        (f"{CHAIN} --max-running-requests 64", HAND_RUN, ("EAGLE", 3, 1, 4), [ADJUSTED]),
        ("--speculative-algorithm eagle3", DENSE, ("EAGLE3", 5, 4, 8), [RESET]),
        ("--speculative-algorithm nextn", HAND_RUN, ("EAGLE", 3, 1, 4), [RESET]),
        ("--speculative-algorithm STANDALONE", DENSE, ("STANDALONE", 3, 1, 4), [RESET]),
        ("--speculative-algorithm NGRAM", DENSE, ("NGRAM", 1, 10, 12), [RESET, "12 by default for ngram", "mixed"]),
        (
            "--speculative-algorithm NGRAM --speculative-num-draft-tokens 8",
            DENSE,
            ("NGRAM", 0, 10, 8),
            [RESET, "mixed"],
        ),
        ("--speculative-algorithm DFLASH", DENSE, ("DFLASH", 15, 1, 16), [RESET]),
        (f"{CHAIN} --speculative-adaptive", HAND_RUN, ("EAGLE", 3, 1, 4), [RESET]),
        (
            "--speculative-algorithm STANDALONE --speculative-adaptive",
            HAND_RUN,
            ("STANDALONE", 3, 1, 4),
            [RESET, "Falling back to static"],
        ),
        (f"{CHAIN} --enable-mixed-chunk", HAND_RUN, ("EAGLE", 3, 1, 4), [RESET, "Mixed chunked prefill", ADJUSTED]),
    ],
)
def test_adjustments(command: str, profile: Profile, seen: tuple[object, ...], notes: list[str]) -> None:
    resolution = resolved(command, profile)
    assert shape(resolution) == seen
    assert len(resolution.notes) == len(notes)
    for expected, note in zip(notes, resolution.notes, strict=True):
        assert expected in note


@pytest.mark.parametrize(
    ("command", "kind", "message"),
    [
        ("--speculative-algorithm MEDUSA", "ValueError", "Unknown speculative algorithm name: MEDUSA"),
        ("--speculative-algorithm EAGLE --speculative-eagle-topk 1", "AssertionError", ""),
        ("--speculative-algorithm EAGLE --speculative-num-steps 3", "TypeError", "'>' not supported"),
        ("--port 60000", "ValueError", "SGLANG_GRPC_PORT (70000) must be between 1 and 65535"),
        (f"{CHAIN.replace('3', '2')} --speculative-adaptive", "ValueError", "not in the adaptive config"),
        (
            "--speculative-algorithm EAGLE --speculative-adaptive --speculative-adaptive-config /no",
            "FileNotFoundError",
            "",
        ),
    ],
)
def test_refusals(command: str, kind: str, message: str) -> None:
    with pytest.raises(Refused) as caught:
        resolved(command)
    assert caught.value.kind == kind
    assert message in caught.value.message


def test_an_adaptive_plan_is_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"1": {"candidate_steps": [2, 4]}, "16": {"candidate_steps": [0]}, "ema_alpha": 0.2}))
    resolution = resolved(f"--speculative-algorithm EAGLE --speculative-adaptive --speculative-adaptive-config {path}")
    assert resolution.adaptive == {1: (2, 4), 16: (0,)}
    assert shape(resolution) == ("EAGLE", 2, 1, 3)


@pytest.mark.parametrize("flag", ["--cuda-graph-max-bs", "--cuda-graph-max-bs-decode"])
def test_old_and_new_spelling_of_a_flag(flag: str) -> None:
    args, notes = flags.parse(["--model-path", "m", flag, "32"])
    assert args["cuda_graph_max_bs_decode"] == 32
    assert len(notes) == (flag == "--cuda-graph-max-bs")


@pytest.mark.parametrize("command", ["--no-such-flag", "--model-path m --no-such-flag", "--model-path m --port x", ""])
def test_wrong_command_lines_exit_with_2(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        flags.parse(command.split())
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("speculates", "most", "sizes"),
    [
        (True, 16, [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16]),
        (False, 32, [1, 2, 4, 8, 12, 16, 24, 32]),
        (True, 9, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ],
)
def test_graph_sizes(speculates: bool, most: int, sizes: list[int]) -> None:
    assert graph_sizes(most, speculates) == sizes


@pytest.mark.parametrize(
    ("command", "profile", "fault", "running", "noted"),
    [
        (f"{CHAIN} --max-running-requests 64", HAND_RUN, "", 17, True),
        (f"{CHAIN} --max-running-requests 8", HAND_RUN, "", 8, False),
        (CHAIN, DENSE, "", 48, False),
        (f"{CHAIN} --max-running-requests 64", DENSE, "", 64, False),
        (f"{CHAIN} --max-running-requests 64", DENSE, "silent-limit-48", 48, False),
        ("", HAND_RUN, "", 50, False),
    ],
)
def test_requests_at_a_time(command: str, profile: Profile, fault: str, running: int, noted: bool) -> None:
    known = faults.parse(fault)
    fit = capacity.fit(resolved(command, profile, fault), profile, known)
    assert fit.max_running == running
    assert bool(fit.notes) is noted


def test_memory_fraction_moves_capacity_and_may_leave_none() -> None:
    none = faults.parse("")
    usual = capacity.fit(resolved(CHAIN), HAND_RUN, none)
    more = capacity.fit(resolved(f"{CHAIN} --mem-fraction-static 0.9"), HAND_RUN, none)
    assert more.kv_tokens > usual.kv_tokens
    with pytest.raises(Refused, match="Not enough memory"):
        capacity.fit(resolved(f"{CHAIN} --mem-fraction-static 0.3"), HAND_RUN, none)


@pytest.mark.parametrize("flag", ["--disable-cuda-graph", "--cuda-graph-max-bs-decode 4"])
def test_graph_cover(flag: str) -> None:
    fit = capacity.fit(resolved(f"{CHAIN} {flag}"), HAND_RUN, faults.parse(""))
    assert fit.graph_max == (0 if "disable" in flag else 4)
