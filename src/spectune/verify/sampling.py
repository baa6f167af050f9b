"""Checks on sampled answers: are the first words distributed as the baseline's?

Greedy answers say nothing about sampling: a server that ignores the temperature, always takes the likeliest token or
draws from a skewed distribution gives them all right. So a few prompts with many good beginnings are asked over and
over, each time with another seed, and the first words are counted, candidate against baseline.

How far the two sides are from one distribution is a p-value (rule: first_words):

- violated: below SURE, where the baseline repeats its own distribution;
- unknown: below DOUBTFUL, or with too few answers or many that failed (a server may refuse the sampling), or where the
  baseline does not repeat itself;
- unknown where a server that shares no word with the baseline would not have been seen, as all answers are different;
- ok otherwise, and the finding says whether a server that always takes the likeliest token would have been seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spectune.domain.asked import Asked
from spectune.domain.finding import Answer
from spectune.domain.workload import Message, Prompt
from spectune.verify.check import Result, ok, unknown, violated
from spectune.verify.first_words import FEWEST, PREFIX, Opening, difference, stiff, strangers
from spectune.verify.observed import Observed

SURE, DOUBTFUL = 1e-4, 1e-3
"""Error that a candidate of the baseline's distribution is called violated, or unknown; each counted once a
deployment."""
MOST_LOST = 0.05
"""Share of the answers that may be missing from what is called alike."""

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
    failed = _failed(before[0], "at the baseline") or _failed(observed.sampled, "here")
    if not found.openings:
        return unknown(wanted, f"fewer than {FEWEST} answers to every prompt" + (f"; {failed}" if failed else ""))
    answered = sum(not answer.error for answer in observed.sampled)
    seen = f"{answered} answers to {len(found.openings)} prompts" + (f" ({failed})" if failed else "")
    seen += f", p = {found.p_value:.2g}"
    if found.p_value >= DOUBTFUL:
        if _lost(before[0], observed.sampled) > MOST_LOST:
            return unknown(wanted, f"{seen}; those that failed may be of a kind")
        if not _would_show(before[0], strangers(before[0])):
            return unknown(wanted, f"{seen}; hardly any two answers begin alike, so that nothing could show")
        blind = (
            ""
            if _would_show(before[0], stiff(before[0]))
            else "; answers vary too little to show a temperature that is ignored"
        )
        return ok(wanted, seen + blind)
    seen += f": {_example(found.worst)}"
    if asked.is_baseline:
        return unknown(wanted, f"{seen}: the baseline does not repeat its own distribution")
    if len(before) > 1 and difference(before[0], before[1]).p_value < DOUBTFUL:
        return unknown(wanted, f"{seen}; nor does the baseline repeat its own distribution")
    return violated(wanted, seen) if found.p_value < SURE else unknown(wanted, seen)


def _would_show(baseline: Sequence[Answer], others: Sequence[Answer]) -> bool:
    """Whether a server that answers otherwise in such a way would be seen."""
    return difference(baseline, others).p_value < SURE


def _lost(baseline: Iterable[Answer], candidate: Iterable[Answer]) -> float:
    """Share of the prompts answered by the baseline that fail at the candidate."""
    answered = {answer.prompt_id for answer in baseline if not answer.error}
    failed = sum(bool(answer.error) and answer.prompt_id in answered for answer in candidate)
    return failed / max(len(answered), 1)


def _failed(answers: Sequence[Answer], where: str) -> str:
    """How many were refused or never came, with the first one's words; "" for none."""
    errors = [answer.error for answer in answers if answer.error]
    return f"{len(errors)} of {len(answers)} failed {where}: {errors[0]}" if errors else ""


def _example(opening: Opening) -> str:
    """The kind of answer whose share differs most; quoted, since it is a model's text."""
    totals = opening.counts.sum(axis=1)
    kind = int(np.argmax(np.abs(opening.counts[1] / totals[1] - opening.counts[0] / totals[0])))
    text = repr(opening.kinds[kind][:40]) if opening.kinds[kind] else "a rare one"
    return (
        f'"{opening.name}" begins with {text} {opening.counts[1, kind]} of {totals[1]} times, '
        f"at the baseline {opening.counts[0, kind]} of {totals[0]}"
    )
