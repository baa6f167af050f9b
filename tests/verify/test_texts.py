"""Measures of text."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.verify.texts import Flaw, agreement, compression, flaw, words

PROSE = (
    "The ferry left the harbour before sunrise, and nobody on deck noticed the parcel under the bench. "
    "When the captain found it he untied the string, read the note twice, and turned the boat around."
)
CODE = "\n".join(
    f"def {name}(items: list[int]) -> int:\n    total = 0\n    for item in items:\n"
    f"        total {sign}= item\n    return total\n"
    for name, sign in (("add", "+"), ("subtract", "-"), ("multiply", "*"), ("divide", "//"))
)
TABLE = "\n".join(f"| {name} | {len(name)} | {name[::-1]} |" for name in PROSE.split())
LIST = "\n".join(f"{n}. {sentence}." for n, sentence in enumerate(PROSE.split(", "), 1))


def noise(letters: str, length: int) -> str:
    rng = random.Random(7)
    return "".join(rng.choice(letters) for _ in range(length))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (PROSE, None),
        (CODE, None),
        (TABLE, None),
        (LIST, None),
        ("Yes.", None),
        ("42", None),
        ("2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47", None),
        ("船在日出前离开了港口，甲板上没有人注意到长凳下的包裹。", None),
        ("naïve café, 12 °C, 3 × 4 = 12 ✓ 🙂", None),
        (PROSE + "\N{REPLACEMENT CHARACTER}", None),
        ("", Flaw.EMPTY),
        (" \n\t", Flaw.EMPTY),
        ("-of" * 40, Flaw.LOOP),
        ("three four five one two " * 12, Flaw.LOOP),
        (PROSE + " and then" * 20, Flaw.LOOP),
        ("".join(f"Step {n}: The answer is the answer to the question. " for n in range(60)), Flaw.LOOP),
        ("\N{REPLACEMENT CHARACTER}" * 12, Flaw.GARBAGE),
        (noise("ab\x00\x01\x02\ufffd", 60), Flaw.GARBAGE),
        (PROSE * 4 + noise("\ufffdxy", 100), Flaw.GARBAGE),
    ],
)
def test_flaws(text: str, found: Flaw | None) -> None:
    assert flaw(text) is found


def test_words_of_scripts_without_spaces_are_counted_one_by_one() -> None:
    assert words("a1 船在, b_2") == ["a1", "船", "在", ",", "b_2"]


def test_a_difference_is_found_in_characters_and_words() -> None:
    found = agreement("one two three four", "one two threw four")
    assert (found.prefix_chars, found.prefix_words) == (12, 3)
    assert found.prefix_share == pytest.approx(12 / 18)
    assert found.similarity == pytest.approx(0.75)
    assert not found.equal


@pytest.mark.parametrize(
    ("reference", "text", "equal", "cut", "goes_on"),
    [
        (PROSE, PROSE, True, False, False),
        (PROSE, PROSE[:-4], True, False, False),
        (PROSE, PROSE[:60], False, True, False),
        (PROSE[:60], PROSE, False, False, True),
        (PROSE, "The ferry sank.", False, False, False),
        ("", "", True, False, False),
        ("", "Yes.", False, False, True),
        ("Yes.", "", False, True, False),
    ],
)
def test_equal_and_cut(reference: str, text: str, equal: bool, cut: bool, goes_on: bool) -> None:
    found = agreement(reference, text)
    assert (found.equal, found.cut, found.goes_on) == (equal, cut, goes_on)


@given(st.text(), st.text())
def test_agreement_is_bounded_and_symmetric(a: str, b: str) -> None:
    there, back = agreement(a, b), agreement(b, a)
    assert 0 <= there.prefix_share <= 1
    assert 0 <= there.similarity <= 1
    assert there.prefix_chars == back.prefix_chars
    assert there.equal == back.equal
    assert there.cut == back.goes_on
    assert a[: there.prefix_chars] == b[: there.prefix_chars]


@given(st.text(alphabet=st.characters()))
def test_any_text_can_be_judged(text: str) -> None:
    assert flaw(text) in {None, *Flaw}
    assert compression(text) > 0
    assert agreement(text, text).equal
