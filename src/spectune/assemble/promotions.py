"""Winners in real services: may they go there, how they come there, and how they are undone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spectune.assemble.engines import Progress
from spectune.assemble.services import Say, Site, caller, connected, managed, site, way_to
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Hardware
from spectune.domain.errors import InputError
from spectune.domain.history import History
from spectune.domain.ports import Engine, launch_of
from spectune.domain.redaction import redact_text
from spectune.domain.service_state import Promotion, Purpose, Winner
from spectune.domain.trial import TrialState
from spectune.hosts import journal
from spectune.hosts.sudo import AskPassword
from spectune.systemd.guard import ServiceGuard
from spectune.systemd.records import Records
from spectune.systemd.unit import description
from spectune.units.edit import Edited

Confirm = Callable[[str], bool]
"""Shows a diff and asks whether to go on."""


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """A service now, against what spectune knows of it; secrets are hidden.

    Attributes:
        state: in words.
        exec_start: command lines in force.
        active_since: seconds since the epoch.
        interrupted: who has begun a change and not finished it; "" for nobody.
        promotions: label of every promotion in force, oldest first.
        promoted: whether the latest of them is what systemd starts now; None where nothing is promoted.
    """

    unit: str
    where: str
    state: str
    enabled: str
    exec_start: tuple[str, ...]
    active_since: float | None
    drop_ins: tuple[str, ...]
    interrupted: str
    promotions: tuple[str, ...]
    promoted: bool | None


def objections(history: History, candidate: str, now: Hardware) -> tuple[str, ...]:
    """Why a candidate of a campaign should not go into the service; empty where it may.

    Args:
        now: the machine that it would run on.
    """
    found: list[str] = []
    provenance, conclusion = history.opened.provenance, history.conclusion
    if provenance.simulated:
        found.append(f"it was measured on {provenance.simulated}")
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
    reasons = objections(history, candidate.id, now)
    if reasons and not words.strip():
        raise InputError(
            f"{candidate.label} is not promoted: {'; '.join(reasons)}",
            'To do it nevertheless, say why: --force "..."; the words are kept on the host.',
        )


def drop_in_of(found: Site, engine: Engine, history: History, candidate: Candidate) -> Edited:
    """The drop-in that turns the unit's command line into the candidate's. Raises InputError."""
    service = history.opened.service
    baseline = launch_of(engine, service, history.baseline)
    return found.texts.between(baseline, launch_of(engine, service, candidate))


def promote_within(
    found: Site, engine: Engine, campaign: str, history: History, candidate: Candidate, words: str
) -> Promotion | None:
    """Promotes inside the guard. See ServiceGuard.promote."""
    check_allowed(history, candidate, found.hardware(), words)
    text = drop_in_of(found, engine, history, candidate).text
    found.unit.write_missing(launch_of(engine, history.opened.service, candidate).files)
    return found.guard.promote(Winner(campaign, candidate.id, candidate.label, words.strip()), text)


def promote(
    campaign: str,
    history: History,
    candidate: str | None,
    words: str,
    ask: AskPassword | None,
    say: Say,
    progress: Progress,
    confirm: Confirm,
) -> Promotion | None:
    """Promotes a candidate of a campaign that has ended.

    Returns:
        None where it is promoted already, or where it was not confirmed.

    Raises:
        InputError: it should not be promoted, or the unit can't be changed so.
        HostError, EngineFailure: it did not come up; the service is as it was.
    """
    service = history.opened.spec.service
    if not service.unit:
        raise InputError(f"{campaign} did not tune a systemd unit", "Name one in service.unit.")
    wanted = chosen(history, candidate)
    with site(service, ask, say) as found:
        engine = found.kit.locate(service, progress, False).adapter
        check_allowed(history, wanted, found.hardware(), words)
        edited = drop_in_of(found, engine, history, wanted)
        if edited.diff and not confirm(edited.diff):
            return None
        with found.guard.around(Purpose.PROMOTION):
            return promote_within(found, engine, campaign, history, wanted, words)


def rollback(remote: str, unit: str, ask: AskPassword | None, say: Say) -> str:
    """Completes what was cut off, or undoes the latest promotion. See ServiceGuard.rollback."""
    with connected(remote, ask) as host:
        here = managed(host, remote, unit)
        here.found()
        records = Records(here)
        plan, promotions = records.plan(), records.promotions()
        if plan is None and not promotions:
            raise InputError(
                f"there is nothing to undo for {here.name} on {here.where}",
                "No campaign was cut off there, and nothing is promoted.",
            )
        endpoint = plan.endpoint if plan is not None else promotions[-1].endpoint
        with way_to(host, endpoint.address, endpoint.port) as way:
            guard = ServiceGuard(
                here,
                endpoint,
                way.fetch,
                lambda invocation: journal.read(host, here.name, invocation, sudo=here.sudo),
                caller(),
                say,
            )
            return guard.rollback()


def status(remote: str, unit: str, ask: AskPassword | None) -> ServiceStatus:
    """What a service is now. Raises InputError and HostError."""
    with connected(remote, ask) as host:
        here = managed(host, remote, unit)
        state = here.found()
        records = Records(here)
        plan, promotions = records.plan(), records.promotions()
        latest = promotions[-1] if promotions else None
        holds = None
        if latest is not None:
            same_file = host.get(here.drop_in, sudo=here.sudo) == latest.after
            holds = same_file and state.exec_start == latest.exec_start and not state.needs_reload
        return ServiceStatus(
            unit=here.name,
            where=here.where,
            state=description(state),
            enabled=state.enabled,
            exec_start=tuple(map(redact_text, state.exec_start)),
            active_since=state.active_since,
            drop_ins=state.drop_ins,
            interrupted=plan.owner if plan is not None else "",
            promotions=tuple(
                f"{one.number}: {one.winner.label} of {one.winner.campaign}"
                + (f", forced: {one.winner.words}" if one.winner.words else "")
                for one in promotions
            ),
            promoted=holds,
        )
