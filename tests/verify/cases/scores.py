"""Tasks with right and wrong answers: what a candidate may lose."""

from __future__ import annotations

from dataclasses import replace

from spectune.domain.asked import Asked
from spectune.domain.finding import Answer, ProbeRun
from spectune.verify.observed import Observed
from tests.verify.builders import BASELINE, DRAFT, EVIDENCE, SEEN, asked
from tests.verify.cases.case import Cases, ok, unknown, violated

RIGHT, WRONG = 1.0, 0.0


def tasks(*marks: float | None) -> tuple[Answer, ...]:
    return tuple(Answer(f"task/{n}", f"answer {mark}", "stop", "", mark) for n, mark in enumerate(marks))


def beside(*marks: float | None, baseline: bool = False) -> Asked:
    """A candidate, or the baseline itself, whose baseline has these marks."""
    return replace(asked(BASELINE if baseline else DRAFT), baseline_probes=((ProbeRun(4, tasks(*marks)),),))


def marked(*marks: float | None) -> Observed:
    return Observed(EVIDENCE, SEEN, tasks=tasks(*marks))


ALL_RIGHT = beside(*[RIGHT] * 20)
ESCAPED = "'\\x1b[2J wrong', the baseline: 'answer 1.0'"
"""How a lost task is quoted, so that nothing in it acts."""
LOST = tuple(replace(answer, text="\x1b[2J wrong") for answer in tasks(*[WRONG] * 20))
INVENTED = replace(marked(*[RIGHT] * 20), seen=replace(SEEN, invented_text=True))

CASES: Cases = {
    "task-score": (
        ok(ALL_RIGHT, marked(*[RIGHT] * 20)),
        ok(ALL_RIGHT, marked(*[RIGHT] * 16, *[WRONG] * 4)),
        unknown(ALL_RIGHT, marked(*[RIGHT] * 14, *[WRONG] * 6)),
        violated(ALL_RIGHT, marked(*[RIGHT] * 12, *[WRONG] * 8)),
        violated(ALL_RIGHT, Observed(EVIDENCE, SEEN, tasks=LOST), ESCAPED),
        violated(ALL_RIGHT, marked(*[WRONG] * 20), "0 of 20 right, 20 at the baseline (20 lost, 0 gained)"),
        # As many lost as gained is chance.
        ok(beside(*[RIGHT] * 10, *[WRONG] * 10), marked(*[WRONG] * 10, *[RIGHT] * 10)),
        ok(beside(*[WRONG] * 20), marked(*[RIGHT] * 20)),
        violated(beside(*[0.9] * 20), marked(*[0.4] * 20)),
        # The baseline is not worse than itself.
        ok(beside(*[RIGHT] * 20, baseline=True), marked(*[WRONG] * 20)),
        # Nothing that was marked on both sides, or too little.
        unknown(ALL_RIGHT, marked(*[None] * 20)),
        unknown(ALL_RIGHT, marked(*[RIGHT] * 4)),
        unknown(ALL_RIGHT, INVENTED, "not the model's"),
    ),
}
