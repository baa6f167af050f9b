"""Whether both sides of a comparison were measured alike: doubts that one side alone has.

Drift, a busy machine or odd answers that both sides see are in the interval, since trials take turns. Where one side
alone has them, the difference may be theirs. Whether that is chance is told by Fisher's exact test over the trials.
Doubts that come with speed by themselves are left out: a faster server keeps its client busier, and a slower one gets
through fewer requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spectune.domain.finding import Finding, Status
from spectune.domain.history import History
from spectune.domain.trial import Purpose, Trial

SHARED = ("busy-host", "drift", "same-answers", "looping-answers", "tokens-counted-again")
"""Doubts that are the same on both sides of a fair comparison."""
CHANCE = 0.05
SOUNDLY = "measured-soundly"
"""The check on the measurement itself. What the baseline never passes is no fault of a candidate, but for this one: a
load that is wrong for both sides says nothing about either."""


def unfair(history: History, identity: str) -> Iterator[str]:
    """Reasons why the difference between a candidate and the baseline may not be the candidate's."""
    sides = [[t for t in history.of_candidate(one) if t.valid and t.cells] for one in (identity, history.baseline.id)]
    for trial in (trial for side in sides for trial in side if trial.purpose is Purpose.CONFIRM):
        if (finding := unsound(trial)) is not None:
            yield f"check {finding.check} could not tell for trial {trial.number} ({finding.seen})"
            break
    for name in SHARED:
        (ours, clear), (theirs, unharmed) = (_tally(side, name) for side in sides)
        if (ours and theirs) or not (ours or theirs) or (clear and unharmed):
            continue
        from scipy.stats import fisher_exact  # takes seconds to import, and is seldom needed

        if fisher_exact([[ours, clear], [theirs, unharmed]]).pvalue <= CHANCE:
            alone = "the candidate's" if ours else "the baseline's"
            yield f"the doubt {name} is in all of {alone} trials and in none of the other's"


def unsound(trial: Trial) -> Finding | None:
    """What stands against the measurement of a trial; None where nothing does."""
    found = (f for f in trial.verification.findings if f.check == SOUNDLY and f.status is not Status.OK)
    return next(found, None)


def _tally(trials: Sequence[Trial], name: str) -> tuple[int, int]:
    """Trials with a doubt in any cell, and without."""
    doubted = sum(any(d.name == name for cell in t.cells.values() for d in cell.measurement.doubts) for t in trials)
    return doubted, len(trials) - doubted
