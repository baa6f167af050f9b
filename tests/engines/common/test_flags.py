from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.knobs import KnobKind, KnobValue
from spectune.engines.common.flags import arguments, by_spelling, help_flags, knob_of
from spectune.engines.vllm.flags import Flag

KNOWN = (Flag("size", "integer", aliases=("s",)), Flag("cache", "switch", negation=True))


def spelt(*listed: str) -> dict[str, Flag]:
    return by_spelling(KNOWN, frozenset(listed), lambda name, negation: Flag(name, "unknown", negation=negation))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("usage: x [-h] [--a A] [--b | --no-b]\n", {"a", "b", "no-b"}),
        ("  -s, --size S          see --other\n", {"size"}),
        ("  --size S, --length S  see --other\n", {"size", "length"}),
        ("  --cache, --no-cache\n                        see --other, --more\n", {"cache", "no-cache"}),
        ("Use --a instead of --b.\n", set()),
        ("", set()),
    ],
)
def test_help(text: str, found: set[str]) -> None:
    assert help_flags(text) == found


@given(st.text() | st.text(alphabet="-a[] |,\n").map(lambda text: f"[--{text}"))
def test_of_any_help_only_its_words_are_flags(text: str) -> None:
    assert all(f"--{flag}" in text for flag in help_flags(text))


def test_the_recorded_list_is_cut_and_completed() -> None:
    assert spelt() == {"size": KNOWN[0], "s": KNOWN[0], "cache": KNOWN[1]}
    assert spelt("s", "new") == {"size": KNOWN[0], "s": KNOWN[0], "new": Flag("new", "unknown")}
    assert spelt("cache", "no-cache") == {"cache": KNOWN[1]}


@pytest.mark.parametrize("name", ["a-new-one", "zero-copy"])
def test_a_new_flags_negation_is_none_of_its_own(name: str) -> None:
    assert spelt(name, f"no-{name}") == {name: Flag(name, "unknown", negation=True)}
    assert spelt(f"no-{name}") == {f"no-{name}": Flag(f"no-{name}", "unknown")}


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        (Flag("n", "integer"), 2, ("--n", "2")),
        (Flag("n", "integer", many=True), "1 2", ("--n", "1", "2")),
        (Flag("n", "switch"), True, ("--n",)),
        (Flag("n", "switch"), False, ()),
        (Flag("n", "switch", negation=True), False, ("--no-n",)),
    ],
    ids=str,
)
def test_arguments(flag: Flag, value: KnobValue, words: tuple[str, ...]) -> None:
    assert arguments(flag, value) == words


@pytest.mark.parametrize(
    ("flag", "kind", "default"),
    [
        (Flag("n", "integer", default=3), KnobKind.INTEGER, 3),
        (Flag("n", "integer", default=-1), KnobKind.INTEGER, None),
        (Flag("n", "integer", default="auto"), KnobKind.INTEGER, "auto"),
        (Flag("n", "switch", default=False), KnobKind.SWITCH, False),
        (Flag("n", "integer", many=True), KnobKind.TEXT, None),
        (Flag("n", "json"), KnobKind.TEXT, None),
        (Flag("n", "unknown"), KnobKind.TEXT, None),
    ],
    ids=str,
)
def test_knobs(flag: Flag, kind: KnobKind, default: KnobValue | None) -> None:
    knob = knob_of(flag, {"n": (1, 5, "words")})
    assert (knob.kind, knob.default, knob.low, knob.high, knob.about) == (kind, default, 1, 5, "words")
