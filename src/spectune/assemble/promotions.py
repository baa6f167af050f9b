"""Winners in real services: how they come there, and how they are undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from spectune.assemble.admission import check_allowed, chosen
from spectune.assemble.clock import SystemClock
from spectune.assemble.draining import busy_now
from spectune.assemble.engines import Progress
from spectune.assemble.service_text import read_service
from spectune.assemble.services import Say, Site, caller, check_editable, managed, site
from spectune.assemble.ways import HERE, connected, way_to
from spectune.domain.candidate import Candidate
from spectune.domain.errors import HostError, InputError
from spectune.domain.events import Promoted, RolledBack
from spectune.domain.history import History, in_force
from spectune.domain.ports import Engine, Ledger, launch_of
from spectune.domain.redaction import redact_text
from spectune.domain.service_state import Promotion, Purpose, Winner
from spectune.hosts import journal
from spectune.hosts.sudo import AskPassword
from spectune.systemd.guard import Drain, ServiceGuard, Undone
from spectune.systemd.records import Records
from spectune.systemd.unit import ManagedUnit, description
from spectune.units.edit import Edited
from spectune.units.find import find

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
        recorded: what the ledger here says of the unit, a line an event.
        unknown_to_host: the ledger knows a promotion in force that the host does not.
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
    recorded: tuple[str, ...] = ()
    unknown_to_host: bool = False


def change_of(found: Site, engine: Engine, history: History, candidate: Candidate, edit_unit: bool) -> Edited:
    """What turns the unit's command line into the candidate's: a drop-in, or the changed unit file. Raises
    InputError."""
    service = history.opened.service
    baseline = launch_of(engine, service, history.baseline)
    return found.texts.between(baseline, launch_of(engine, service, candidate), edit_unit)


def promote_within(
    found: Site,
    engine: Engine,
    campaign: str,
    history: History,
    candidate: Candidate,
    words: str,
    ledger: Ledger,
    edit_unit: bool | None = None,
) -> Promotion | None:
    """Promotes inside the guard, and writes it into the ledger. See ServiceGuard.promote.

    Args:
        edit_unit: change the unit file itself; None: as the campaign says.
    """
    check_allowed(history, candidate, found.hardware(), words)
    edit_unit = history.opened.spec.service.edit_unit if edit_unit is None else edit_unit
    edited = change_of(found, engine, history, candidate, edit_unit)
    path = check_editable(found.unit, find(found.texts.service)).path if edit_unit else ""
    if path and found.unit.read(path).data != edited.old.encode(errors="surrogateescape"):
        raise HostError(f"{path} on {found.unit.where} was changed by somebody else meanwhile", "Promote it again.")
    found.unit.write_missing(launch_of(engine, history.opened.service, candidate).files)
    winner = Winner(campaign, candidate.id, candidate.label, words.strip())
    done = found.guard.promote(winner, edited.text, path)
    _record(found, ledger, campaign, history)
    return done


def _record(found: Site, ledger: Ledger, campaign: str, history: History) -> None:
    """Writes into the ledger what the host has of this campaign's promotions, also one whose writing was cut off."""
    where, unit = found.unit.where, found.unit.label
    known = {(event.where, event.unit, event.at) for event in history.in_service}
    for one in found.guard.records.promotions():
        winner = one.winner
        if winner.campaign == campaign and (where, unit, one.at) not in known:
            event = Promoted(
                one.at, winner.candidate, winner.label, unit, where, one.number, one.file, redact_text(winner.words)
            )
            ledger.append(campaign, event)


def promote(
    campaign: str,
    history: History,
    candidate: str | None,
    words: str,
    ask: AskPassword | None,
    say: Say,
    progress: Progress,
    confirm: Confirm,
    ledger: Ledger,
    edit_unit: bool | None = None,
) -> Promotion | None:
    """Promotes a candidate of a campaign that has ended.

    Args:
        ledger: the campaign's, for writing.
        edit_unit: change the unit file itself; None: as the campaign says.

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
    edit_unit = service.edit_unit if edit_unit is None else edit_unit
    with site(replace(service, edit_unit=edit_unit), ask, say) as found:
        engine = found.kit.locate(service, progress, False).adapter
        check_allowed(history, wanted, found.hardware(), words)
        edited = change_of(found, engine, history, wanted, edit_unit)
        if edit_unit and (target := check_editable(found.unit, find(found.texts.service)).target):
            say(f"{edited.file} is a link: {target} is what will be changed")
        if edited.diff and not confirm(edited.diff):
            return None
        with found.guard.around(Purpose.PROMOTION):
            return promote_within(found, engine, campaign, history, wanted, words, ledger, edit_unit)


def rollback(remote: str, unit: str, ask: AskPassword | None, say: Say, busy_too: bool = False) -> Undone:
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
                Drain(busy=lambda: busy_now(read_service(here), way.fetch)),
            )
            return guard.rollback(busy_too)


def record_rollback(ledger: Ledger, remote: str, unit: str, undone: Promotion) -> None:
    """Writes into the ledger that a promotion of one of its campaigns was undone.

    Raises:
        LedgerError: it can't be written, or the campaign is not in it.
    """
    name = unit if unit.endswith(".service") else f"{unit}.service"
    event = RolledBack(SystemClock().now(), name, remote or HERE, undone.number)
    ledger.append(undone.winner.campaign, event)


def status(
    remote: str, unit: str, ask: AskPassword | None, ledger: Sequence[tuple[str, Promoted | RolledBack]] = ()
) -> ServiceStatus:
    """What a service is now.

    Args:
        ledger: promotions and rollbacks that are known here, with their campaigns.

    Raises:
        InputError, HostError: it can't be asked.
    """
    with connected(remote, ask) as host:
        here = managed(host, remote, unit)
        state = here.found()
        records = Records(here)
        plan, promotions = records.plan(), records.promotions()
        latest = promotions[-1] if promotions else None
        holds = None
        if latest is not None:
            same_file = host.get(latest.file, sudo=here.sudo) == latest.after
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
                f"{one.number}: {one.winner.label} of {one.winner.campaign} in {one.file}"
                + (f", forced: {one.winner.words}" if one.winner.words else "")
                for one in promotions
            ),
            promoted=holds,
            recorded=tuple(_recorded(ledger, here)),
            unknown_to_host=_unknown_to_host(ledger, here, promotions),
        )


def _recorded(ledger: Sequence[tuple[str, Promoted | RolledBack]], here: ManagedUnit) -> Iterator[str]:
    """What a ledger says of a unit, a line an event, in the order of time."""
    for campaign, event in ledger:
        if (event.where, event.unit) == (here.where, here.label):
            at = datetime.fromtimestamp(event.at).astimezone().strftime("%Y-%m-%d %H:%M")
            if isinstance(event, Promoted):
                yield f"{at} promotion {event.number}: {event.label} of {campaign}"
            else:
                yield f"{at} promotion {event.number} of {campaign} was rolled back"


def _unknown_to_host(
    ledger: Sequence[tuple[str, Promoted | RolledBack]], here: ManagedUnit, promotions: Sequence[Promotion]
) -> bool:
    """Whether a ledger knows of a promotion in force that the host knows nothing of."""
    there = {one.at for one in promotions}
    mine = [event for _, event in ledger if (event.where, event.unit) == (here.where, here.label)]
    return any(one.at not in there for one in in_force(mine))
