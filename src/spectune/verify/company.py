"""Does a server answer in company as it does alone? A question that needs no baseline: the service itself faces it.

Some faults show in batches only: a graph captured for the wrong shape, a mask that is too small, a cache row of
somebody else. Where the service as it is has one, all its candidates differ from noise, and comparing tells nothing.

Numerics may part the answers of a deployment with company from those without (see `verify.answers`), at some rare rate
a word. What is broken parts from the start: the exact Poisson test finds more partings than even a rate of BROKEN a
word allows, beyond doubt, and the median answer parts within NEAR_ZERO words.
"""

from __future__ import annotations

from collections.abc import Sequence

from spectune.domain.asked import Asked
from spectune.domain.finding import Answer
from spectune.verify.answers import BEYOND_DOUBT, BROKEN, FEWEST, LEVEL, NEAR_ZERO, parting, quoted
from spectune.verify.check import Result, ok, unknown, violated, worst
from spectune.verify.observed import Observed

WANTED = "the answers of one user, up to numerics"


def answers_alike(asked: Asked, observed: Observed) -> Result:
    """Every load the probes were asked at, against the probes asked one by one."""
    if not observed.answers:
        return unknown(WANTED, "no probe was sent")
    if observed.seen.invented_text:
        return unknown(WANTED, "the text is not the model's, so there are none")
    alone = [answer for group in observed.answers if group.users == 1 for answer in group.candidate]
    company = [group for group in observed.answers if group.users > 1]
    if not company:
        return ok(WANTED, "nobody is asked for in company")
    return worst(_alike(alone, group.candidate, group.users) for group in company)


def _alike(alone: Sequence[Answer], answers: Sequence[Answer], users: int) -> Result:
    found = parting(alone, answers)
    if len(found.pairs) < FEWEST:
        return unknown(WANTED, f"{users} users: {len(found.pairs)} prompts to compare, not {FEWEST}")
    seen = f"{users} users: {found.text}"
    chance = found.chance(BROKEN)
    if chance > LEVEL:
        return ok(WANTED, seen)
    if chance < BEYOND_DOUBT and found.start < NEAR_ZERO:
        name = next(name for name, pair in sorted(found.pairs.items()) if not pair.equal)
        texts = ({answer.prompt_id: answer.text for answer in run}[name] for run in (answers, alone))
        mine, theirs = (quoted(text) for text in texts)
        return violated(WANTED, f'{seen}; for example "{name}": {mine}, alone: {theirs}')
    return unknown(WANTED, f"{seen}: more than numerics explain")
