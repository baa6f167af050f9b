"""Reading settings from a command line."""

from __future__ import annotations

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from spectune.domain.candidate import Method
from spectune.domain.knobs import KnobValue
from spectune.verify.arguments import depth_given, given, mentions, method_given, same


@pytest.mark.parametrize(
    ("argv", "name", "value"),
    [
        ("s --threads 2", "threads", "2"),
        ("s --threads=2", "threads", "2"),
        ("s --threads 1 --threads 2", "threads", "2"),
        ("s --ctx_size 4096", "ctx-size", "4096"),
        ("s --flash-attn --port 1", "flash-attn", True),
        ("s --flash-attn", "flash-attn", True),
        ("s --no-mmap", "mmap", False),
        ("s --offset -1", "offset", "-1"),
        ("s --offset -1 -x", "offset", "-1"),
        ("s --log -x", "log", True),
        ("s --threads-batch 2", "threads", None),
        ("s -t 2", "threads", None),
        ("", "threads", None),
    ],
)
def test_given(argv: str, name: str, value: KnobValue | None) -> None:
    assert given(argv.split(), name) == value


@pytest.mark.parametrize(
    ("asked", "seen", "equal"),
    [
        (1, 1, True),
        (1, "1", True),
        (0.6, "0.600000", True),
        (0.6, 0.61, False),
        (True, "on", True),
        (True, 1, True),
        (True, True, True),
        (False, "off", True),
        (False, True, False),
        (True, 2, False),
        ("on", True, True),
        ("q8_0", " q8_0", True),
        ("q8_0", "f16", False),
        ("/a/b", "/a/./b", True),
        ("/a/b", "/a/c", False),
        (10**400, 1, False),
        ("nan", "nan", False),
    ],
)
def test_same(asked: KnobValue, seen: KnobValue, equal: bool) -> None:
    assert same(asked, seen) is equal


@pytest.mark.parametrize(
    ("line", "name", "found"),
    [
        ("W --spec-draft-n-max is ignored", "spec-draft-n-max", True),
        ("W spec_draft_n_max reset to 2", "spec-draft-n-max", True),
        ("W n_threads_batch is set", "threads", False),
        ("W Threads reset", "threads", True),
        ("W something", "threads", False),
    ],
)
def test_mentions(line: str, name: str, found: bool) -> None:
    assert mentions(line, name) is found


@pytest.mark.parametrize(
    ("argv", "method", "depth"),
    [
        ("--spec-type draft-simple --spec-draft-n-max 3", Method.DRAFT, 3),
        ("--spec-type ngram-simple --spec-ngram-simple-size-m 8", Method.NGRAM, 8),
        ("--spec-type ngram-simple --spec-draft-n-max 8", Method.NGRAM, None),
        ("--speculative-algorithm EAGLE3 --speculative-num-steps=4", Method.EAGLE3, 4),
        ("--speculative-algorithm NEXTN --speculative-num-steps 2 --speculative-num-draft-tokens 3", Method.MTP, 2),
        ("--speculative-algorithm NGRAM --speculative-num-draft-tokens 9", Method.NGRAM, 8),
        ("--spec-type draft-simple", Method.DRAFT, None),
        ("--spec-type draft-simple --spec-draft-n-max", Method.DRAFT, None),
        ("--spec-type draft-simple --spec-draft-n-max 2.5", Method.DRAFT, None),
    ],
)
def test_speculation_on_the_command_line(argv: str, method: Method, depth: int | None) -> None:
    assert method_given(argv.split()) is method
    assert depth_given(argv.split(), method) == depth


@pytest.mark.parametrize(
    "argv", ["", "-md x", "--spec-type what", "--spec-type ngram-mod --speculative-algorithm EAGLE"]
)
def test_no_method_on_the_command_line(argv: str) -> None:
    assert method_given(argv.split()) is None


WORDS = st.text() | st.sampled_from(["--a", "--a=1", "--no-a", "-1", "--", "--="])


@for_all(st.lists(WORDS))
def test_what_comes_last_counts_after_any_words(argv: list[str]) -> None:
    last = [*argv, "--spec-type=draft-simple", "--spec-draft-n-max", "3", "--no-a"]
    assert given(last, "a") is False
    assert method_given(last) is Method.DRAFT
    assert depth_given(last, Method.DRAFT) == 3
    assert depth_given(last, Method.NGRAM) is None


@for_all(
    st.from_regex(r"[a-z][a-z-]{0,10}", fullmatch=True),
    st.integers() | st.text(min_size=1).filter(lambda t: t[0] != "-"),
)
def test_what_was_passed_is_found(name: str, value: KnobValue) -> None:
    for argv in ([f"--{name}", str(value)], [f"--{name}={value}"]):
        found = given(["server", "--zzz", *argv, "--yyy"], name)
        assert found == str(value)
