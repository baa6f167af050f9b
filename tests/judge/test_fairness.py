"""Comparisons whose two sides were not measured alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spectune.domain.candidate import Candidate
from spectune.domain.finding import Finding, Status, Verification
from spectune.domain.measurement import Doubt
from spectune.domain.trial import Purpose, Trial
from spectune.domain.verdict import Decision
from spectune.judge.fairness import unfair
from spectune.judge.paired import PairedJudge
from tests.judge.lab import BASELINE, OK, Lab, Noisy, draft, make_spec

JUDGE = PairedJudge()
DOUBTED = Finding("measured-soundly", Status.UNKNOWN, "this load", "99 % of prompt tokens came from the cache")
UNSOUND = Verification((*OK.findings, DOUBTED))


def confirmed(pairs: int = 4, gain: float = 0.4) -> Lab:
    noisy = Noisy(3)
    lab = Lab(make_spec(confirm_pairs=pairs))
    for _ in range(2):
        lab.trial(BASELINE, Purpose.BASELINE, noisy())
    trial = lab.trial(draft(3), Purpose.EXPLORE, noisy(gain))
    lab.decided(trial, JUDGE.decide(lab.spec, lab.history, trial))
    for place in range(2 * pairs):
        arm = (BASELINE, draft(3), draft(3), BASELINE)[place % 4]
        lab.trial(arm, Purpose.CONFIRM, noisy(gain if arm != BASELINE else 0.0))
    return lab


def doubted(trial: Trial, name: str) -> Trial:
    cells = {
        key: replace(cell, measurement=replace(cell.measurement, doubts=(Doubt(name, "seen", "do"),)))
        for key, cell in trial.cells.items()
    }
    return replace(trial, cells=cells)


def with_doubts(lab: Lab, name: str, *arms: Candidate) -> Lab:
    trials = {n: doubted(t, name) if t.candidate in arms else t for n, t in lab.history.trials.items()}
    lab.history = replace(lab.history, trials=trials)
    return lab


@pytest.mark.parametrize(
    ("name", "arms", "fair"),
    [
        ("drift", (draft(3),), False),
        ("drift", (BASELINE,), False),
        ("drift", (BASELINE, draft(3)), True),
        ("busy-host", (draft(3),), False),
        ("same-answers", (draft(3),), False),
        # A faster server brings these upon its client by itself.
        ("client-busy", (draft(3),), True),
        ("client-late", (draft(3),), True),
        ("few-requests", (BASELINE,), True),
    ],
)
def test_a_doubt_of_one_side_alone_leaves_no_decision(name: str, arms: tuple[Candidate, ...], fair: bool) -> None:
    lab = with_doubts(confirmed(), name, *arms)
    conclusion = JUDGE.conclude(lab.spec, lab.history)
    assert conclusion.changed == fair
    if not fair:
        assert conclusion.winner is None
        assert f"the doubt {name} is in all of" in conclusion.reason


def test_a_doubt_of_most_trials_of_one_side_is_chance() -> None:
    lab = with_doubts(confirmed(), "drift", draft(3))
    first = next(n for n, t in lab.history.trials.items() if t.purpose is Purpose.CONFIRM and t.candidate == draft(3))
    clean = {key: replace(c, measurement=replace(c.measurement, doubts=())) for key, c in
             lab.history.trials[first].cells.items()}  # fmt: skip
    lab.history = replace(
        lab.history, trials={**lab.history.trials, first: replace(lab.history.trials[first], cells=clean)}
    )
    assert JUDGE.conclude(lab.spec, lab.history).changed


def test_chance_alone_seldom_looks_unfair() -> None:
    """At the rate of a doubt that does most harm, with confirmation as it is by default."""
    rng = np.random.default_rng(5)
    lab, alarms = confirmed(), 0
    for _ in range(400):
        hit = {n: doubted(t, "drift") if rng.random() < 0.5 else t for n, t in lab.history.trials.items()}
        alarms += any(unfair(replace(lab.history, trials=hit), draft(3).id))
    assert alarms <= 8


@pytest.mark.parametrize("arms", [(draft(3),), (BASELINE,), (BASELINE, draft(3))])
def test_a_load_that_is_wrong_on_either_side_or_both_leaves_no_decision(arms: tuple[Candidate, ...]) -> None:
    lab = confirmed()
    trials = {n: replace(t, verification=UNSOUND) if t.candidate in arms else t for n, t in lab.history.trials.items()}
    lab.history = replace(lab.history, trials=trials)
    conclusion = JUDGE.conclude(lab.spec, lab.history)
    assert conclusion.winner is None
    assert "came from the cache" in conclusion.reason


def test_an_unsound_exploration_is_not_held_against_a_sound_confirmation() -> None:
    lab = confirmed()
    trials = {n: replace(t, verification=UNSOUND) if t.purpose is Purpose.EXPLORE else t
              for n, t in lab.history.trials.items()}  # fmt: skip
    lab.history = replace(lab.history, trials=trials)
    assert JUDGE.conclude(lab.spec, lab.history).winner == draft(3).id


def test_an_unsound_trial_is_not_kept() -> None:
    noisy = Noisy(1)
    lab = Lab(make_spec())
    for _ in range(3):
        lab.trial(BASELINE, Purpose.BASELINE, noisy())
    verdict = JUDGE.decide(lab.spec, lab.history, lab.trial(draft(3), Purpose.EXPLORE, noisy(0.4), checked=UNSOUND))
    assert verdict.decision is Decision.INCONCLUSIVE
    assert "99 % of prompt tokens came from the cache" in verdict.reason
