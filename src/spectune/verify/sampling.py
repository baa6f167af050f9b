"""Checks on sampled answers: are the first words distributed as the baseline's?

Greedy answers say nothing about sampling: a server that ignores the temperature, always takes the likeliest token or
draws from a skewed distribution gives them all right. So a few prompts with many good beginnings are asked over and
over, each time with another seed, and the first words are counted, candidate against baseline.

Let a prompt's answers be cut after so many words that most kinds of them can be counted (chosen from both sides
together), and kinds seen fewer than SPARSE times in both together be one kind. Three tests, all given the totals:

- spread over everything: Pearson's chi-squared statistics of all prompts, summed;
- a single prompt: the smallest p-value of those, times the number of prompts;
- sharpness: answers that are their prompt's likeliest one, over all prompts (the exact conditional test of Mantel and
  Haenszel: a sum of hypergeometric variables, convolved). It sees a temperature that is too low or too high.

The smallest p-value of the three, times three (Bonferroni), decides. With seeds shared by both sides the samples are
alike rather than independent, which only makes false alarms rarer.

- violated: below SURE, where the baseline repeats its own distribution;
- unknown: below DOUBTFUL, or with too few answers, or where the baseline does not repeat itself;
- ok otherwise, and the finding says whether a server that always takes the likeliest token would have been seen.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, hypergeom

from spectune.domain.asked import Asked
from spectune.domain.finding import Answer
from spectune.domain.workload import Message, Prompt
from spectune.verify.check import Result, ok, unknown, violated
from spectune.verify.observed import Observed
from spectune.verify.texts import words

PREFIX = "sampled/"
"""How the ids of these prompts begin; "sampled/story#7" is the seventh time of "story"."""
SURE, DOUBTFUL = 1e-4, 1e-3
"""Error that a candidate of the baseline's distribution is called violated, or unknown; each counted once a
deployment."""
SPARSE = 8
"""Kinds of answers seen less often on both sides together are counted as one kind, so that each side expects four."""
MOST_WORDS = 3
FEWEST = 12
"""Fewer answers to a prompt on either side are left out."""
TESTS = 3

_OPENINGS: Mapping[str, str] = {
    "story": "Write the first sentence of a story.",
    "word": "Say one word, any word that comes to mind.",
    "question": "Ask me a question about anything.",
    "name": "Invent a name for a small boat, and say nothing else.",
    "number": "Pick a number between 1 and 100 and say only the number.",
    "animal": "Name an animal, in one word.",
    "advice": "Give me one piece of advice.",
    "city": "Name a city, in one word.",
}
"""Prompts with many good beginnings, so that the first words show how they were drawn."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is asked: so many prompts, each so many times, answers of so many tokens at most."""

    prompts: int
    times: int
    tokens: int


PLENTY = Amount(8, 40, 4)
"""320 requests of 4 tokens: some seconds on a GPU."""
LITTLE = Amount(4, 24, 3)
"""For models on a CPU: 96 requests of 3 tokens. What is not much sharper or flatter than it should be is not seen."""


def sampled_set(temperature: float | None, top_p: float | None, amount: Amount = PLENTY) -> tuple[Prompt, ...]:
    """The prompts, each as often as it is asked, with the sampling and seed that replace those of greedy probes.

    Args:
        temperature, top_p: of the workload; None leaves the server's default.
    """
    openings = list(_OPENINGS.items())[: amount.prompts]
    return tuple(
        Prompt(
            f"{PREFIX}{name}#{number}",
            "sampled",
            (Message("user", text),),
            amount.tokens,
            extra={"temperature": temperature, "top_p": top_p, "seed": _seed(name, number)},
        )
        for number in range(1, amount.times + 1)
        for name, text in openings
    )


def _seed(name: str, number: int) -> int:
    """Neighbouring seeds begin alike in weak generators; these share nothing."""
    return int.from_bytes(hashlib.sha256(f"{name}/{number}".encode()).digest()[:4], "big") >> 1


def is_sampled(answer: Answer) -> bool:
    """Whether an answer belongs to these prompts."""
    return answer.prompt_id.startswith(PREFIX)


def _texts(answers: Iterable[Answer]) -> dict[str, list[str]]:
    """Opening -> texts of its answers."""
    found: dict[str, list[str]] = {}
    for answer in answers:
        if not answer.error:
            found.setdefault(answer.prompt_id.removeprefix(PREFIX).partition("#")[0], []).append(answer.text)
    return found


@dataclass(frozen=True, slots=True)
class Opening:
    """The answers to one prompt, counted by kind.

    Attributes:
        kinds: the first words of each kind, the likeliest on both sides together first; "" stands for all rare ones.
        counts: 2 x kinds; first row the baseline's.
    """

    name: str
    kinds: tuple[str, ...]
    counts: NDArray[np.int64]

    @property
    def statistic(self) -> tuple[float, int]:
        """Pearson's chi-squared statistic given the totals, and its degrees of freedom.

        The factor (N - 1) / N makes its mean exactly the degrees of freedom.
        """
        kinds, total = self.counts.sum(axis=0), int(self.counts.sum())
        if len(self.kinds) < 2:
            return 0.0, 0
        expected = np.outer(self.counts.sum(axis=1), kinds) / total
        pearson = float(((self.counts - expected) ** 2 / expected).sum())
        return pearson * (total - 1) / total, len(self.kinds) - 1


def counted(name: str, baseline: Sequence[str], candidate: Sequence[str]) -> Opening:
    """Counts the kinds of answers, cut where most kinds can be told apart. Both sides are looked at together, which
    leaves the tests given the totals as they are."""
    return max(
        (_cut(name, baseline, candidate, length) for length in range(1, MOST_WORDS + 1)),
        key=lambda opening: (opening.statistic[1], -len(opening.kinds[0])),
    )


def _cut(name: str, baseline: Sequence[str], candidate: Sequence[str], length: int) -> Opening:
    sides = [Counter(" ".join(words(text)[:length]) for text in texts) for texts in (baseline, candidate)]
    both = sides[0] + sides[1]
    common = [kind for kind, times in sorted(both.items(), key=lambda item: (-item[1], item[0])) if times >= SPARSE]
    rows = [[side[kind] for kind in common] for side in sides]
    rest = [side.total() - sum(row) for side, row in zip(sides, rows, strict=True)]
    if common and 0 < sum(rest) < SPARSE:
        # Too few for a kind of their own: with the least common one, unless that is the only one.
        if len(common) == 1:
            common, rows = [*common, ""], [[*row, more] for row, more in zip(rows, rest, strict=True)]
        else:
            rows = [[*row[:-1], row[-1] + more] for row, more in zip(rows, rest, strict=True)]
    elif sum(rest):
        common, rows = [*common, ""], [[*row, more] for row, more in zip(rows, rest, strict=True)]
    return Opening(name, tuple(common), np.array(rows, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Difference:
    """How far two sides' answers are from one distribution.

    Attributes:
        openings: those with enough answers on both sides.
        p_value: see the module.
    """

    openings: tuple[Opening, ...]
    p_value: float

    @property
    def worst(self) -> Opening:
        return min(self.openings, key=lambda opening: _tail(*opening.statistic))


def difference(baseline: Iterable[Answer], candidate: Iterable[Answer]) -> Difference:
    """Compares sampled answers (rule: see the module)."""
    theirs, ours = _texts(baseline), _texts(candidate)
    enough = [name for name in theirs if min(len(theirs[name]), len(ours.get(name, ()))) >= FEWEST]
    openings = tuple(counted(name, theirs[name], ours[name]) for name in enough)
    if not openings:
        return Difference((), 1.0)
    statistics = [opening.statistic for opening in openings]
    spread = _tail(sum(value for value, _ in statistics), sum(freedom for _, freedom in statistics))
    single = len(openings) * min(_tail(*one) for one in statistics)
    return Difference(openings, min(1.0, TESTS * min(spread, single, _sharpness(openings))))


def _tail(statistic: float, freedom: int) -> float:
    return float(chi2.sf(statistic, freedom)) if freedom else 1.0


def _sharpness(openings: Iterable[Opening]) -> float:
    """Two-sided p-value of the number of the candidate's answers that are the likeliest of their prompt."""
    distribution, seen = np.ones(1), 0
    for opening in openings:
        own, total = int(opening.counts[1].sum()), int(opening.counts.sum())
        likeliest = int(opening.counts[:, 0].sum())
        distribution = np.convolve(distribution, hypergeom.pmf(np.arange(own + 1), total, likeliest, own))
        seen += int(opening.counts[1, 0])
    tail = min(float(distribution[: seen + 1].sum()), float(distribution[seen:].sum()))
    return min(1.0, 2 * tail)


def would_show(baseline: Sequence[Answer]) -> bool:
    """Whether a server that always takes the likeliest token would be seen beside these answers."""
    texts = _texts(baseline)
    stiff = [
        Answer(f"{PREFIX}{name}#{number}", Counter(found).most_common(1)[0][0])
        for name, found in texts.items()
        for number in range(len(found))
    ]
    return difference(baseline, stiff).p_value < SURE


def wanted_of(asked: Asked) -> bool:
    """Whether the workload samples, and the baseline's sampled answers are known."""
    samples = any(cell.sampling.temperature != 0.0 for cell in asked.cells)
    return samples and bool(_of_baseline(asked))


def _of_baseline(asked: Asked) -> list[tuple[Answer, ...]]:
    """The sampled answers of each deployment of the baseline."""
    found = (
        tuple(answer for run in deployment for answer in run.answers if is_sampled(answer))
        for deployment in asked.baseline_probes
    )
    return [answers for answers in found if answers]


def sampled_alike(asked: Asked, observed: Observed) -> Result:
    """The comparison with the baseline, given what the baseline differs from itself."""
    wanted = "first words distributed as the baseline's"
    if observed.seen.invented_text:
        return unknown(wanted, "the text is not the model's, so it has no distribution")
    before = _of_baseline(asked)
    if not before or not observed.sampled:
        return unknown(wanted, "no sampled prompt was asked")
    found = difference(before[0], observed.sampled)
    if not found.openings:
        return unknown(wanted, f"fewer than {FEWEST} answers to every prompt")
    seen = f"{len(observed.sampled)} answers to {len(found.openings)} prompts, p = {found.p_value:.2g}"
    if found.p_value >= DOUBTFUL:
        blind = "" if would_show(before[0]) else "; answers vary too little to show a temperature that is ignored"
        return ok(wanted, seen + blind)
    seen += f": {_example(found.worst)}"
    if asked.is_baseline:
        return unknown(wanted, f"{seen}: the baseline does not repeat its own distribution")
    if len(before) > 1 and difference(before[0], before[1]).p_value < DOUBTFUL:
        return unknown(wanted, f"{seen}; nor does the baseline repeat its own distribution")
    return violated(wanted, seen) if found.p_value < SURE else unknown(wanted, seen)


def _example(opening: Opening) -> str:
    """The kind of answer whose share differs most; quoted, since it is a model's text."""
    totals = opening.counts.sum(axis=1)
    kind = int(np.argmax(np.abs(opening.counts[1] / totals[1] - opening.counts[0] / totals[0])))
    text = repr(opening.kinds[kind][:40]) if opening.kinds[kind] else "a rare one"
    return (
        f'"{opening.name}" begins with {text} {opening.counts[1, kind]} of {totals[1]} times, '
        f"at the baseline {opening.counts[0, kind]} of {totals[0]}"
    )
