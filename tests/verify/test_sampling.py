"""Sampled answers: what is caught, and how seldom it is a false alarm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from spectune.domain.asked import Asked
from spectune.domain.finding import Answer, ProbeRun, Status
from spectune.domain.workload import Cell, Level, Sampling
from spectune.verify import sampling
from spectune.verify.gate import Gate
from spectune.verify.observed import Observed
from spectune.verify.sampling import PLENTY, PREFIX, SURE, Amount, counted, difference, sampled_set
from tests.verify.builders import BASELINE, DRAFT, EVIDENCE, SEEN, asked

Shares = NDArray[np.float64]
KINDS = 40


def shares(rng: np.random.Generator, prompts: int = PLENTY.prompts) -> list[Shares]:
    """First words of some prompts: a few are likely, many are not."""
    return [rng.dirichlet(np.full(KINDS, 0.2)) for _ in range(prompts)]


def draw(rng: np.random.Generator, of: Sequence[Shares], times: int = PLENTY.times) -> tuple[Answer, ...]:
    return tuple(
        Answer(f"{PREFIX}q{place}#{number}", f"word{kind} then something {rng.integers(1000)}", "length")
        for place, p in enumerate(of)
        for number, kind in enumerate(rng.choice(KINDS, size=times, p=p))
    )


def likeliest(p: Shares) -> Shares:
    found: Shares = np.eye(KINDS)[p.argmax()]
    return found


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


@pytest.mark.parametrize("amount", [PLENTY, sampling.LITTLE])
def test_false_alarms_are_as_rare_as_stated(amount: Amount) -> None:
    """At a level that so few draws can tell: at most 1 in 50, for 150 sound candidates (4 sigmas of room)."""
    rng = np.random.default_rng(12)
    alarms = 0
    for _ in range(150):
        truth = shares(rng, amount.prompts)
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


def test_every_prompt_is_asked_with_its_own_seed_under_the_sampling_of_the_workload() -> None:
    prompts = sampled_set(0.7, 0.9)
    assert len(prompts) == PLENTY.prompts * PLENTY.times
    assert len({prompt.id for prompt in prompts}) == len({prompt.extra["seed"] for prompt in prompts}) == len(prompts)
    assert all((prompt.extra["temperature"], prompt.extra["top_p"]) == (0.7, 0.9) for prompt in prompts)
    assert prompts == sampled_set(0.7, 0.9)


RNG = np.random.default_rng(21)
TRUTH = shares(RNG)
FIRST, SECOND, SOUND = (draw(RNG, TRUTH) for _ in range(3))
COLD = draw(RNG, [likeliest(p) for p in TRUTH])
FEW = tuple(answer for answer in SOUND if answer.prompt_id.endswith("#1"))
SURE_WORDS = tuple(replace(answer, text="Okay, the user") for answer in FIRST)


def after(*deployments: tuple[Answer, ...], baseline: bool = False, temperature: float | None = 0.7) -> Asked:
    known = tuple((ProbeRun(4, answers),) for answers in deployments)
    cells = (Cell(Level(4), Sampling(temperature)),)
    return replace(asked(BASELINE if baseline else DRAFT), baseline_probes=known, cells=cells)


@pytest.mark.parametrize(
    ("wants", "answers", "status", "words"),
    [
        (after(FIRST, SECOND), SOUND, Status.OK, "320 answers to 8 prompts"),
        (after(FIRST), SOUND, Status.OK, "p ="),
        (after(FIRST, SECOND), COLD, Status.VIOLATED, "begins with"),
        (after(FIRST, COLD), COLD, Status.UNKNOWN, "nor does the baseline"),
        (after(FIRST, baseline=True), SECOND, Status.OK, ""),
        (after(FIRST, baseline=True), COLD, Status.UNKNOWN, "does not repeat its own"),
        (after(SURE_WORDS), SURE_WORDS, Status.OK, "vary too little"),
        (after(FIRST), (), Status.UNKNOWN, "no sampled prompt"),
        (after(FIRST), FEW, Status.UNKNOWN, "fewer than"),
        (after(FIRST), tuple(replace(a, error="http-error: 400") for a in SOUND), Status.UNKNOWN, "fewer than"),
    ],
)
def test_findings(wants: Asked, answers: tuple[Answer, ...], status: Status, words: str) -> None:
    found = sampling.sampled_alike(wants, Observed(EVIDENCE, SEEN, sampled=answers))
    assert found.status is status
    assert words in found.seen


def test_text_that_is_invented_has_no_distribution() -> None:
    observed = Observed(EVIDENCE, replace(SEEN, invented_text=True), sampled=SOUND)
    assert sampling.sampled_alike(after(FIRST), observed).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("wants", "applies"),
    [
        (after(FIRST), True),
        (after(FIRST, temperature=None), True),
        (after(FIRST, temperature=0.0), False),
        (after(), False),
        (after((Answer("chat/1", "hello"),)), False),
    ],
)
def test_only_sampling_workloads_whose_baseline_is_known_are_checked(wants: Asked, applies: bool) -> None:
    assert sampling.wanted_of(wants) == applies


def test_the_gate_keeps_sampled_answers_from_the_greedy_ones() -> None:
    greedy = tuple(Answer(f"chat/{n}", f"An answer of some words, number {n}.", "stop") for n in range(8))
    baseline = (ProbeRun(4, greedy), ProbeRun(4, FIRST))
    wants = replace(after(), baseline_probes=(baseline, baseline))
    found = Gate().before(wants, EVIDENCE, SEEN, (ProbeRun(4, greedy), ProbeRun(4, COLD)))
    status = {finding.check: finding.status for finding in found.findings}
    assert (status["answers"], status["answers-sampled"]) == (Status.OK, Status.VIOLATED)
    assert found.invalid_because is not None
    assert found.invalid_because.check == "answers-sampled"
