"""Sampled answers of servers whose distributions are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spectune.domain.asked import Asked
from spectune.domain.finding import Answer, ProbeRun
from spectune.domain.workload import Cell, Level, Sampling
from spectune.verify.first_words import PREFIX
from spectune.verify.observed import Observed
from spectune.verify.sampling import PLENTY
from tests.verify.builders import BASELINE, DRAFT, EVIDENCE, SEEN, asked
from tests.verify.cases.case import Cases, ok, unknown, violated

Shares = NDArray[np.float64]
KINDS = 40


def shares(rng: np.random.Generator, prompts: int = PLENTY.prompts, evenness: float = 0.2) -> list[Shares]:
    """First words of some prompts: a few are likely and many are not, unless they are drawn to be even."""
    return [rng.dirichlet(np.full(KINDS, evenness)) for _ in range(prompts)]


def draw(rng: np.random.Generator, of: Sequence[Shares], times: int = PLENTY.times) -> tuple[Answer, ...]:
    return tuple(
        Answer(f"{PREFIX}q{place}#{number}", f"word{kind} then something {rng.integers(1000)}", "length")
        for place, p in enumerate(of)
        for number, kind in enumerate(rng.choice(KINDS, size=times, p=p))
    )


def likeliest(p: Shares) -> Shares:
    found: Shares = np.eye(KINDS)[p.argmax()]
    return found


def after(*deployments: tuple[Answer, ...], baseline: bool = False, temperature: float | None = 0.7) -> Asked:
    """A candidate, or the baseline itself, after deployments of the baseline that answered so."""
    known = tuple((ProbeRun(4, answers),) for answers in deployments)
    cells = (Cell(Level(4), Sampling(temperature)),)
    return replace(asked(BASELINE if baseline else DRAFT), baseline_probes=known, cells=cells)


def answered(answers: tuple[Answer, ...]) -> Observed:
    return Observed(EVIDENCE, SEEN, sampled=answers)


def refused(answers: tuple[Answer, ...], keep: int = 0) -> tuple[Answer, ...]:
    """The same prompts, all but so many of which the server turns down."""
    return *answers[:keep], *(replace(a, text="", error="http-error: HTTP 400 no temperature") for a in answers[keep:])


RNG = np.random.default_rng(21)
TRUTH = shares(RNG)
FIRST, SECOND, SOUND = (draw(RNG, TRUTH) for _ in range(3))
COLD = draw(RNG, [likeliest(p) for p in TRUTH])
FEW = tuple(answer for answer in SOUND if answer.prompt_id.endswith("#1"))
SURE_WORDS = tuple(replace(answer, text="Okay, the user") for answer in FIRST)
FLAT = [np.full(KINDS, 1 / KINDS)] * PLENTY.prompts
EVEN, EVEN_TOO = draw(RNG, FLAT), draw(RNG, FLAT)
STRANGE = tuple(replace(answer, text=f"un{answer.text}") for answer in EVEN_TOO)
"""Of another vocabulary, in which every word is as rare."""
ALL_DIFFERENT = tuple(replace(answer, text=f"{n} {answer.text}") for n, answer in enumerate(FIRST))
SLIGHTLY = draw(np.random.default_rng(30), [0.85 * p + 0.15 * likeliest(p) for p in TRUTH])
"""A little too sharp: too much for chance, too little to be sure."""

CASES: Cases = {
    "answers-sampled": (
        ok(after(FIRST, SECOND), answered(SOUND), "320 answers to 8 prompts"),
        ok(after(FIRST), answered(SOUND), "p ="),
        violated(after(FIRST, SECOND), answered(COLD), "begins with"),
        unknown(after(FIRST, SECOND), answered(SLIGHTLY), "begins with"),
        ok(after(EVEN), answered(EVEN_TOO)),
        violated(after(EVEN), answered(STRANGE)),
        unknown(after(ALL_DIFFERENT), answered(ALL_DIFFERENT), "nothing could show"),
        unknown(after(FIRST, COLD), answered(COLD), "nor does the baseline"),
        ok(after(FIRST, baseline=True), answered(SECOND)),
        unknown(after(FIRST, baseline=True), answered(COLD), "does not repeat its own"),
        ok(after(SURE_WORDS), answered(SURE_WORDS), "vary too little"),
        unknown(after(FIRST), answered(()), "no sampled prompt"),
        unknown(after(FIRST), answered(FEW), "fewer than 12 answers to every prompt"),
        # A server that refuses the sampling, on either side.
        unknown(after(FIRST), answered(refused(SOUND)), "320 of 320 failed here: http-error: HTTP 400 no temperature"),
        unknown(after(refused(FIRST)), answered(SOUND), "320 of 320 failed at the baseline: http-error: HTTP 400"),
        unknown(after(FIRST), answered(refused(SOUND, 240)), "(80 of 320 failed here: http-error: HTTP 400"),
        ok(after(FIRST), answered(refused(SOUND, 310)), "310 answers to 8 prompts (10 of 320 failed here"),
        ok(after(refused(FIRST, 240)), answered(refused(SOUND, 240)), "80 of 320 failed at the baseline"),
        unknown(after(FIRST), replace(answered(SOUND), seen=replace(SEEN, invented_text=True)), "not the model's"),
    ),
}
