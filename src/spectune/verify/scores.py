"""Check on tasks whose answers are right or wrong: is a candidate worse at them than the baseline?

Both sides are asked the same tasks, so only tasks with another score than at the baseline tell anything. Where the
candidate is as good, a task is as likely lost as gained; the exact sign test over these tasks (for right and wrong
alone: McNemar's) gives the error of calling it worse.
"""

from __future__ import annotations

from collections.abc import Sequence

from scipy.special import bdtrc

from spectune.domain.asked import Asked
from spectune.domain.finding import Answer
from spectune.domain.tasks import TASK
from spectune.verify.answers import example
from spectune.verify.check import Result, ok, unknown, violated
from spectune.verify.observed import Observed

SURE, DOUBTFUL = 0.005, 0.02
"""Error of calling a candidate worse that is as good; a campaign asks a candidate's greedy answers several times, and
gets nearly the same ones."""
SHOWN = 3
"""Lost tasks that a finding quotes."""


def is_task(answer: Answer) -> bool:
    """Whether an answer is one to a task."""
    return answer.prompt_id.startswith(TASK)


def wanted_of(asked: Asked) -> bool:
    """Whether the baseline has answered tasks."""
    return bool(_of_baseline(asked))


def _of_baseline(asked: Asked) -> tuple[Answer, ...]:
    """Of the first deployment that was asked."""
    for deployment in asked.baseline_probes:
        found = tuple(answer for run in deployment for answer in run.answers if is_task(answer))
        if found:
            return found
    return ()


def tasks_kept(asked: Asked, observed: Observed) -> Result:
    """The comparison (rule: see the module). The baseline is never worse than itself; its findings tell its score."""
    wanted = "as many tasks right as the baseline"
    theirs, ours = _marked(_of_baseline(asked)), _marked(observed.tasks)
    both = sorted(theirs.keys() & ours.keys())
    if observed.seen.invented_text:
        return unknown(wanted, "the text is not the model's, so it solves nothing")
    if 2 * len(both) < len(theirs) or not both:
        return unknown(wanted, f"{len(both)} of {len(theirs)} tasks were answered")
    lost = [name for name in both if _score(ours[name]) < _score(theirs[name])]
    gained = sum(_score(ours[name]) > _score(theirs[name]) for name in both)
    before, now = (sum(_score(side[name]) for name in both) for side in (theirs, ours))
    seen = f"{now:g} of {len(both)} right, {before:g} at the baseline ({len(lost)} lost, {gained} gained)"
    chance = float(bdtrc(len(lost) - 1, len(lost) + gained, 0.5)) if lost else 1.0
    if chance >= DOUBTFUL or asked.is_baseline:
        return ok(wanted, seen)
    shown = "; ".join(example(name, theirs[name].text, ours[name].text) for name in lost[:SHOWN])
    verdict = violated if chance < SURE else unknown
    return verdict(wanted, f"{seen}; {shown}")


def _marked(answers: Sequence[Answer]) -> dict[str, Answer]:
    return {answer.prompt_id: answer for answer in answers if answer.score is not None}


def _score(answer: Answer) -> float:
    return answer.score or 0.0
