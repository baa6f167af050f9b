"""The gate as a whole: what findings there are, and what becomes of the trial."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.asked import Asked
from spectune.domain.candidate import Method
from spectune.domain.deployment import Exit, ListenerOwner
from spectune.domain.finding import Finding, ProbeRun, Status, Verification
from spectune.domain.trial import TrialState
from spectune.verify.gate import Gate, after_measuring, before_measuring, on_answers, on_start, state_of
from spectune.verify.observed import Observed, ProbeAnswers
from tests.verify.builders import BASELINE, DRAFT, POOL, answers, asked, cell, drafts, evidence, record, seen
from tests.verify.cases.answers import BASE

CELL = {"c1 T0": cell(drafts(100, 0.5, 0.7, 0.5, 0.3), records=(record("a"),))}
PROBES = (ProbeAnswers(BASE, BASE, BASE),)


def names(verification: Verification) -> set[str]:
    return {finding.check for finding in verification.findings}


def whole(wanted: Asked, observed: Observed) -> tuple[TrialState, str]:
    return state_of(before_measuring(wanted, observed, PROBES) + after_measuring(wanted, observed, CELL))


def test_a_sound_trial_is_valid_and_proven() -> None:
    wanted, observed = asked(), seen()
    found = before_measuring(wanted, observed, PROBES) + after_measuring(wanted, observed, CELL)
    assert state_of(found) == (TrialState.VALID, "")
    assert found.proven
    assert all(not finding.why and not finding.advice for finding in found.findings)


@pytest.mark.parametrize(
    ("observed", "state", "reason"),
    [
        (seen(speculating=False), TrialState.INVALID, "speculation-live: speculation is off"),
        (evidence(listener=ListenerOwner.FOREIGN), TrialState.INVALID, "listener-is-ours: a process"),
        (evidence(exit=Exit(1, "boom")), TrialState.INVALID, "process-alive: it ended with code 1: boom"),
        (seen(method=Method.NGRAM, depth=9), TrialState.INVALID, "speculation-method: method ngram"),
        (seen(invalid_output="synthetic"), TrialState.UNKNOWN, "output-valid: simulated: synthetic"),
        (seen(warnings=("W odd",)), TrialState.UNKNOWN, 'new-warnings: "W odd"'),
        (evidence(started_unix=None, log=""), TrialState.UNKNOWN, "started-after-deploy: when the process started"),
    ],
)
def test_states(observed: Observed, state: TrialState, reason: str) -> None:
    found, why = whole(asked(), observed)
    assert found is state
    assert why.startswith(reason)


def test_what_was_not_checked_is_not_valid() -> None:
    assert state_of(Verification()) == (TrialState.UNKNOWN, "nothing was checked")
    assert state_of(before_measuring(asked(), seen()))[0] is TrialState.UNKNOWN


def test_a_blocking_violation_comes_before_what_is_unknown() -> None:
    findings = (
        Finding("a", Status.UNKNOWN, "", "dark"),
        Finding("b", Status.VIOLATED, "", "soft", blocks_measurement=False),
        Finding("c", Status.VIOLATED, "", "hard"),
    )
    assert state_of(Verification(findings)) == (TrialState.INVALID, "c: hard")
    assert state_of(Verification(findings[:2])) == (TrialState.UNKNOWN, "a: dark (and 1 more)")


def test_what_is_not_ok_says_why_and_what_to_do() -> None:
    bad = Observed(replace(evidence().evidence, listener=ListenerOwner.FOREIGN), seen(speculating=None).seen)
    for finding in on_start(asked(), bad).findings:
        assert finding.asked
        assert finding.seen
        if finding.status is not Status.OK:
            assert finding.why
            assert finding.advice
        if finding.status is Status.UNKNOWN:
            assert not finding.blocks_measurement


def test_stages_add_up() -> None:
    wanted, observed = asked(), seen()
    both = on_start(wanted, observed) + on_answers(wanted, observed, PROBES)
    assert both == before_measuring(wanted, observed, PROBES)


@pytest.mark.parametrize(
    ("wanted", "absent"),
    [
        (
            asked(BASELINE, ()),
            {
                "scheduler-parity",
                "speculation-depth",
                "depth-kept",
                "head-sound",
                "drafts-not-suspicious",
                "speculation-topk",
            },
        ),
        (asked(DRAFT), {"drafts-not-suspicious"}),
        (asked(POOL), {"head-sound", "speculation-topk"}),
    ],
)
def test_questions_without_meaning_are_not_asked(wanted: Asked, absent: set[str]) -> None:
    every = names(before_measuring(wanted, seen()) + after_measuring(wanted, seen(), {}))
    from_all = names(before_measuring(asked(DRAFT), seen()) + after_measuring(asked(DRAFT), seen(), {}))
    assert not every & absent
    assert every | absent >= from_all


def test_an_answered_probe_is_seen_by_the_gate() -> None:
    found = on_answers(asked(), seen(), [ProbeAnswers(answers("", error="HTTP 500"))])
    assert state_of(found)[0] is TrialState.INVALID


def test_answers_are_held_against_the_baselines_at_the_same_load() -> None:
    """Garbage that shows in company only makes the trial invalid, with an example."""
    garbled = answers(*["\ufffd" * 30] * len(BASE))
    twice = ((ProbeRun(1, BASE), ProbeRun(16, BASE)),) * 2
    wanted = replace(asked(), baseline_probes=twice)
    found = Gate().before(wanted, evidence().evidence, seen().seen, (ProbeRun(1, BASE), ProbeRun(16, garbled)))
    state, why = state_of(found)
    assert state is TrialState.INVALID
    assert why.startswith("answers: 16 users: 12 of 12 are garbage characters; for example")
    alone = Gate().before(wanted, evidence().evidence, seen().seen, (ProbeRun(1, BASE), ProbeRun(16, BASE)))
    assert state_of(alone)[0] is TrialState.VALID


def test_a_load_that_the_baseline_was_not_asked_at_is_unknown() -> None:
    wanted = replace(asked(), baseline_probes=((ProbeRun(1, BASE),),) * 2)
    found = Gate().before(wanted, evidence().evidence, seen().seen, (ProbeRun(1, BASE), ProbeRun(16, BASE)))
    assert state_of(found)[0] is TrialState.UNKNOWN
