"""How far the first words of two sides' answers are from one distribution.

Let a prompt's answers be cut after so many words that most kinds of them can be counted (chosen from both sides
together), and kinds seen fewer than SPARSE times in both together be one kind. Four tests, all given the totals:

- spread over everything: Pearson's chi-squared statistics of all prompts, summed;
- a single prompt: the smallest p-value of those, times the number of prompts;
- sharpness: answers that are their prompt's likeliest one, over all prompts (the exact conditional test of Mantel and
  Haenszel: a sum of hypergeometric variables, convolved). It sees a temperature that is too low or too high;
- strangers: of all kinds seen at least twice, rare or not, how few were seen on both sides. Each is split by the two
  sides with a hypergeometric probability, nearly independently of the others (80 answers: correlations of 0.0003). It
  sees words of another model where every word is rare, which leaves nothing to the other three.

The smallest p-value of the four, times four (Bonferroni), decides. With seeds shared by both sides the samples are
alike rather than independent, which only makes false alarms rarer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, gammaln

from spectune.domain.finding import Answer
from spectune.verify.texts import words

PREFIX = "sampled/"
"""How the ids of these prompts begin; "sampled/story#7" is the seventh time of "story"."""
SPARSE = 8
"""Kinds of answers seen less often on both sides together are counted as one kind, so that each side expects four."""
MOST_WORDS = 3
FEWEST = 12
"""Fewer answers to a prompt on either side are left out."""
TESTS = 4


def _texts(answers: Iterable[Answer]) -> dict[str, list[str]]:
    """Opening -> texts of its answers."""
    found: dict[str, list[str]] = {}
    for answer in answers:
        if not answer.error:
            found.setdefault(_opening(answer), []).append(answer.text)
    return found


def _opening(answer: Answer) -> str:
    return answer.prompt_id.removeprefix(PREFIX).partition("#")[0]


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
    sides = _kinds(baseline, candidate, length)
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
    strangers = _strangers([(theirs[name], ours[name]) for name in enough])
    return Difference(openings, min(1.0, TESTS * min(spread, single, _sharpness(openings), strangers)))


def _tail(statistic: float, freedom: int) -> float:
    return float(chdtrc(freedom, statistic)) if freedom else 1.0


def _sharpness(openings: Iterable[Opening]) -> float:
    """Two-sided p-value of the number of the candidate's answers that are the likeliest of their prompt."""
    distribution, seen = np.ones(1), 0
    for opening in openings:
        own, total = int(opening.counts[1].sum()), int(opening.counts.sum())
        likeliest = int(opening.counts[:, 0].sum())
        distribution = np.convolve(distribution, _hypergeometric(np.arange(own + 1), total, likeliest, own))
        seen += int(opening.counts[1, 0])
    tail = min(float(distribution[: seen + 1].sum()), float(distribution[seen:].sum()))
    return min(1.0, 2 * tail)


def _hypergeometric(hits: ArrayLike, total: int, good: ArrayLike, drawn: int) -> NDArray[np.float64]:
    """Probability of so many hits among `drawn` of `total`, of which `good` are hits; 0 where it can't be.

    As scipy.stats has it, which takes seconds to import.
    """

    def log_ways(n: ArrayLike, k: ArrayLike) -> NDArray[np.float64]:
        n, k = np.asarray(n, np.float64), np.asarray(k, np.float64)
        found: NDArray[np.float64] = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        return found

    missed, bad = drawn - np.asarray(hits), total - np.asarray(good)
    return np.exp(log_ways(good, hits) + log_ways(bad, missed) - log_ways(total, drawn))


def _strangers(pairs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> float:
    """One-sided p-value of how few of the kinds that came more than once came on both sides."""
    distribution, seen = np.ones(1), 0
    for baseline, candidate in pairs:
        sides = max(
            (_kinds(baseline, candidate, length) for length in range(1, MOST_WORDS + 1)),
            key=lambda two: sum(times > 1 for times in (two[0] + two[1]).values()),
        )
        repeated = {kind: times for kind, times in (sides[0] + sides[1]).items() if times > 1}
        seen += sum(kind in sides[0] and kind in sides[1] for kind in repeated)
        times, own, total = np.array([*repeated.values()]), len(candidate), len(baseline) + len(candidate)
        one_sided = _hypergeometric(0, total, times, own) + _hypergeometric(times, total, times, own)
        for chance in np.clip(one_sided, 0.0, 1.0):
            distribution = np.convolve(distribution, (chance, 1 - chance))
    return min(1.0, float(distribution[: seen + 1].sum()))


def _kinds(baseline: Iterable[str], candidate: Iterable[str], length: int) -> tuple[Counter[str], Counter[str]]:
    """The first words of each side's answers."""
    theirs, ours = (Counter(" ".join(words(text)[:length]) for text in texts) for texts in (baseline, candidate))
    return theirs, ours


def stiff(baseline: Sequence[Answer]) -> list[Answer]:
    """The same answers from a server that always takes the likeliest token."""
    likeliest = {name: Counter(texts).most_common(1)[0][0] for name, texts in _texts(baseline).items()}
    return [replace(answer, text=likeliest[_opening(answer)]) for answer in baseline if not answer.error]


def strangers(baseline: Sequence[Answer]) -> list[Answer]:
    """As many answers, alike as often, from a server that has no word in common with these."""
    return [replace(answer, text=f"un{answer.text.lstrip()}") for answer in baseline]
