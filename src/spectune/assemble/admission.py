"""Which winners may go into a real service."""

from __future__ import annotations

from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Hardware
from spectune.domain.errors import InputError
from spectune.domain.events import Provenance
from spectune.domain.history import History
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import TrialState

_FORCE = 'To do it nevertheless, say why: --force "..."; the words are kept on the host.'


def objections_to_all(provenance: Provenance, spec: CampaignSpec) -> tuple[str, ...]:
    """Why no candidate of a campaign should go into the service, as can be told before it begins."""
    found: list[str] = []
    if provenance.simulated:
        found.append(f"it was measured on {provenance.simulated}")
    if spec.workload.ignore_eos:
        found.append("it was measured on answers forced past their end (ignore_eos), which flatters speculation")
    return tuple(found)


def objections(history: History, candidate: str, now: Hardware) -> tuple[str, ...]:
    """Why a candidate of a campaign should not go into the service; empty where it may.

    Args:
        now: the machine that it would run on.
    """
    provenance, conclusion = history.opened.provenance, history.conclusion
    found = [*objections_to_all(provenance, history.opened.spec)]
    if conclusion is None:
        found.append("the campaign has not ended")
    elif conclusion.winner != candidate:
        found.append(f"the campaign's winner is {conclusion.winner or 'nobody'}")
    trials = [trial for trial in history.ordered if trial.candidate.id == candidate]
    if any(trial.state is TrialState.INVALID for trial in trials):
        found.append("a trial of it was invalid")
    if not any(trial.state is TrialState.VALID for trial in trials):
        found.append("no trial of it passed every check")
    for trial in trials:
        seen = trial.deployment.seen if trial.deployment else None
        if seen is not None and seen.invalid_output:
            found.append(f"its output is not valid: {seen.invalid_output}")
            break
    then = provenance.hardware
    if (then.hostname, then.cpu, then.gpus) != (now.hostname, now.cpu, now.gpus):
        found.append(f"it was measured on {then.hostname}, not on {now.hostname}, or that machine has changed")
    return tuple(found)


def chosen(history: History, candidate: str | None) -> Candidate:
    """The candidate to promote: the winner, unless another is named.

    Raises:
        InputError: there is none, or it is what the service runs anyway.
    """
    wanted = candidate or (history.conclusion.winner if history.conclusion else None)
    if wanted is None:
        raise InputError("the campaign has no winner", "Let it come to an end, or name a candidate.")
    found = history.candidates.get(wanted)
    if found is None:
        raise InputError(f"no candidate {wanted!r}", f"There are: {', '.join(history.candidates)}.")
    if found.id == history.baseline.id:
        raise InputError("the winner is the service as it is", "There is nothing to promote.")
    return found


def check_allowed(history: History, candidate: Candidate, now: Hardware, words: str) -> None:
    """Raises:
    InputError: it should not be promoted, and nobody has said why it should be nevertheless.
    """
    if (reasons := objections(history, candidate.id, now)) and not words.strip():
        raise InputError(f"{candidate.label} is not promoted: {'; '.join(reasons)}", _FORCE)


def check_any_allowed(provenance: Provenance, spec: CampaignSpec, words: str) -> None:
    """The same for whoever would win. Raises InputError."""
    if (reasons := objections_to_all(provenance, spec)) and not words.strip():
        raise InputError(f"no winner could be promoted: {'; '.join(reasons)}", _FORCE)
