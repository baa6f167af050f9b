"""First words of two sides: what is told apart, and how seldom it is a false alarm."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectune.domain.finding import Answer
from spectune.verify.first_words import PREFIX, counted, difference
from spectune.verify.sampling import LITTLE, PLENTY, SURE, Amount
from tests.verify.cases.sampling import KINDS, Shares, draw, likeliest, shares


def at_temperature(p: Shares, temperature: float) -> Shares:
    raised = p ** (1 / temperature)
    found: Shares = raised / raised.sum()
    return found


@pytest.mark.parametrize(
    ("wrong", "least"),
    [
        (likeliest, 40),
        (lambda p: 0.6 * p + 0.4 * likeliest(p), 36),
        (lambda p: at_temperature(p, 0.4), 36),
        (lambda p: np.roll(p, 1), 40),
        (lambda p: np.full(KINDS, 1 / KINDS), 40),
    ],
    ids=["always the likeliest", "the likeliest in 40 %", "too cold", "other words", "flat"],
)
def test_a_wrong_sampler_is_caught(wrong: Callable[[Shares], Shares], least: int) -> None:
    rng = np.random.default_rng(11)
    caught = 0
    for _ in range(40):
        truth = shares(rng)
        caught += difference(draw(rng, truth), draw(rng, [wrong(p) for p in truth])).p_value < SURE
    assert caught >= least


@pytest.mark.parametrize("evenness", [0.2, 100.0], ids=["some words are likely", "none is"])
@pytest.mark.parametrize("amount", [PLENTY, LITTLE])
def test_false_alarms_are_as_rare_as_stated(amount: Amount, evenness: float) -> None:
    """At a level that so few draws can tell: at most 1 in 50, for 150 sound candidates (4 sigmas of room)."""
    rng = np.random.default_rng(12)
    alarms = 0
    for _ in range(150):
        truth = shares(rng, amount.prompts, evenness)
        found = difference(draw(rng, truth, amount.times), draw(rng, truth, amount.times))
        alarms += found.p_value < 0.02
    assert alarms <= 150 * 0.02 + 4 * np.sqrt(150 * 0.02)


def test_one_skewed_prompt_among_sound_ones_is_caught() -> None:
    rng = np.random.default_rng(13)
    truth = shares(rng)
    skewed = [*truth[:-1], np.roll(truth[-1], 7)]
    found = difference(draw(rng, truth), draw(rng, skewed))
    assert found.p_value < SURE
    assert found.worst.name == "q7"


def test_the_same_seeds_with_the_same_sampler_are_no_difference() -> None:
    answers = draw(np.random.default_rng(1), shares(np.random.default_rng(2)))
    assert difference(answers, answers).p_value == 1.0


def test_rare_answers_are_counted_together() -> None:
    often, rare = ["The cat"] * 20, [f"odd{n} cat" for n in range(20)]
    opening = counted("q", often + rare, often + rare)
    assert opening.counts.sum() == 80
    assert (opening.kinds, opening.counts.tolist()) == (("The", ""), [[20, 20], [20, 20]])
    few = counted("q", often, often + rare[:1])
    assert (few.kinds, few.counts.tolist()) == (("The", ""), [[20, 0], [20, 1]])
    assert counted("q", often, often).statistic == (0.0, 0)


def test_answers_are_cut_where_most_kinds_show() -> None:
    ours = ["Once upon a time"] * 10 + ["Once there was one"] * 10
    assert set(counted("q", ours, ours).kinds) == {"Once upon", "Once there"}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.text(max_size=12), st.sampled_from(["", "http-error: 400"])), max_size=80),
    st.lists(st.tuples(st.integers(0, 3), st.text(max_size=12), st.sampled_from(["", "http-error: 400"])), max_size=80),
)
def test_no_text_raises(theirs: list[tuple[int, str, str]], ours: list[tuple[int, str, str]]) -> None:
    sides = [
        tuple(Answer(f"{PREFIX}q{n}#{i}", text, None, error) for i, (n, text, error) in enumerate(rows))
        for rows in (theirs, ours)
    ]
    found = difference(*sides)
    assert 0.0 <= found.p_value <= 1.0
    assert found.p_value == pytest.approx(difference(*reversed(sides)).p_value)
