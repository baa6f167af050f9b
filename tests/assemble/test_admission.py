"""Who may go into a real service, and why others may not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.assemble.admission import check_allowed, check_any_allowed, chosen, objections
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Hardware, Seen
from spectune.domain.errors import InputError
from spectune.domain.history import History
from spectune.domain.spec import CampaignSpec, WorkloadSpec
from tests.report.sample import BASE, broken_baseline, decided, draft, ngram, nothing_better, provenance, running, spec


@pytest.mark.parametrize(
    ("simulated", "forced_length", "reason"),
    [
        ("a simulated SGLang", False, "it was measured on a simulated SGLang"),
        ("", True, "it was measured on answers forced past their end (ignore_eos), which flatters speculation"),
        ("", False, ""),
    ],
)
def test_what_no_winner_could_be_is_told_before_the_service_is_stopped(
    simulated: str, forced_length: bool, reason: str
) -> None:
    campaign = _campaign(forced_length)
    check_any_allowed(provenance(simulated), campaign, "I know")
    if not reason:
        check_any_allowed(provenance(simulated), campaign, " ")
        return
    with pytest.raises(InputError) as caught:
        check_any_allowed(provenance(simulated), campaign, " ")
    assert caught.value.message == f"no winner could be promoted: {reason}"
    assert "--force" in caught.value.advice


def _campaign(ignore_eos: bool) -> CampaignSpec:
    return replace(spec(), workload=WorkloadSpec(ignore_eos=ignore_eos))


def test_a_winner_whose_trials_passed_may_go_to_the_machine_it_was_measured_on() -> None:
    history = decided()
    here = history.opened.provenance.hardware
    assert chosen(history, None) == draft(3)
    assert objections(history, draft(3).id, here) == ()
    check_allowed(history, draft(3), here, "")


def with_garbage(history: History) -> History:
    """Its last trial's server wrote NaN."""
    trial = history.trials[11]
    assert trial.deployment is not None
    deployment = replace(trial.deployment, seen=Seen(invalid_output="NaN in logits"))
    return replace(history, trials={**history.trials, 11: replace(trial, deployment=deployment)})


@pytest.mark.parametrize(
    ("history", "candidate", "reasons"),
    [
        (decided(), draft(1), ("the campaign's winner is 2224316a",)),
        (decided(), ngram(8), ("the campaign's winner is", "a trial of it was invalid", "no trial of it passed")),
        (running(), draft(1), ("the campaign has not ended",)),
        (running(), draft(2), ("the campaign has not ended", "no trial of it passed every check")),
        (broken_baseline(), BASE, ("winner is nobody", "a trial of it was invalid", "no trial of it passed")),
        (
            nothing_better(),
            BASE,
            ("it was measured on spectune's own simulated engine", "answers forced past their end"),
        ),
        (with_garbage(decided()), draft(3), ("its output is not valid: NaN in logits",)),
    ],
)
def test_what_speaks_against_a_candidate(history: History, candidate: Candidate, reasons: tuple[str, ...]) -> None:
    here = history.opened.provenance.hardware
    found = objections(history, candidate.id, here)
    assert [reason in said for reason, said in zip(reasons, found, strict=True)] == [True] * len(reasons)
    with pytest.raises(InputError, match="is not promoted"):
        check_allowed(history, candidate, here, "  ")
    check_allowed(history, candidate, here, "I have looked at the answers myself")


HERE = decided().opened.provenance.hardware


@pytest.mark.parametrize(
    "there", [replace(HERE, hostname="other"), replace(HERE, cpu="another"), replace(HERE, gpus=("NVIDIA H200",))]
)
def test_another_machine_is_an_objection(there: Hardware) -> None:
    history = decided()
    assert [said.startswith("it was measured on ada-laptop") for said in objections(history, draft(3).id, there)] == [
        True
    ]


@pytest.mark.parametrize(
    ("history", "candidate", "said"),
    [
        (running(), None, "no winner"),
        (nothing_better(), None, "the service as it is"),
        (decided(), "12345678", "no candidate '12345678'"),
        (decided(), BASE.id, "the service as it is"),
    ],
)
def test_nobody_to_promote(history: History, candidate: str | None, said: str) -> None:
    with pytest.raises(InputError, match=said):
        chosen(history, candidate)
