"""`spectune promote`, `rollback` and `status`: the real service."""

from __future__ import annotations

import functools
import getpass
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from spectune import assemble
from spectune.cli.inspect import Directory, Json, Which
from spectune.cli.screen import messages, print_json, results
from spectune.domain.errors import InputError, LedgerError
from spectune.domain.events import Promoted, RolledBack

Ask = Callable[[str], str] | None
"""Asks for a password; None where nobody can be asked."""

Remote = Annotated[str, typer.Option("--remote", help="Machine, as `ssh NAME` calls it; this one by default.")]
Unit = Annotated[str, typer.Option("--unit", help="systemd unit, such as llm.service; 'user:NAME' for a user's own.")]
Words = Annotated[str, typer.Option("--force", help="Promote although spectune would refuse, and say why.")]
EditUnit = Annotated[
    bool | None,
    typer.Option(
        "--edit-unit/--drop-in",
        help="Change the flags in the unit file itself, or write a drop-in; by default as the campaign file says.",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def promote(
    which: Which = None,
    directory: Directory = Path("spectune-runs"),
    candidate: Annotated[str | None, typer.Option(help="Candidate id in place of the winner's.")] = None,
    edit_unit: EditUnit = None,
    words: Words = "",
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Write a campaign's winner into the real service.

    It goes into a drop-in, or into the unit file with --edit-unit. What it replaces is kept on the host:
    spectune rollback puts it back.
    """
    asked = False

    def confirm(diff: str) -> bool:
        nonlocal asked
        typer.echo(diff, nl=False, err=as_json)
        if yes or not sys.stdin.isatty():
            return True
        asked = not typer.confirm("Write this and restart the service?", err=as_json)
        return not asked

    with assemble.writable(directory, only_there=True) as ledger:
        campaign_id, history = assemble.find_campaign(ledger, which)
        done = assemble.promote(
            campaign_id, history, candidate, words, password(), say, silent, confirm, ledger, edit_unit
        )
    service = history.opened.spec.service
    undo = f"spectune rollback --unit {service.unit}" + (f" --remote {service.remote}" if service.remote else "")
    said = "nothing was changed" if asked else "it is promoted already; nothing was changed"
    if done is not None:
        said = f"promoted {done.winner.label} of {campaign_id} into {done.file}; undo it with: {undo}"
    if as_json:
        print_json(
            {
                "promoted": done is not None,
                "words": said,
                "campaign": campaign_id,
                "candidate": done.winner.candidate if done else None,
                "label": done.winner.label if done else None,
                "unit": service.unit,
                "remote": service.remote,
                "file": done.file if done else None,
                "number": done.number if done else None,
                "undo": undo if done else None,
            }
        )
    else:
        typer.echo(said)


def rollback(
    unit: Unit,
    remote: Remote = "",
    directory: Directory = Path("spectune-runs"),
    busy_too: Annotated[
        bool, typer.Option("--force", help="At once, however busy the service is; its requests are cut off.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Put a service back: after a run that was cut off, else as it was before the last promotion."""
    undone = assemble.rollback(remote, unit, password(), say, busy_too)
    promotion = undone.promotion
    if as_json:
        print_json(
            {
                "undone": "promotion" if promotion else "what was cut off",
                "words": undone.words,
                "campaign": promotion.winner.campaign if promotion else None,
                "candidate": promotion.winner.candidate if promotion else None,
                "label": promotion.winner.label if promotion else None,
                "unit": unit,
                "remote": remote,
                "file": promotion.file if promotion else None,
                "number": promotion.number if promotion else None,
                "again": f"spectune promote {promotion.winner.campaign}" if promotion else None,
            }
        )
    else:
        typer.echo(undone.words)
    if promotion is None:
        return
    try:
        with assemble.writable(directory, only_there=True) as ledger:
            assemble.record_rollback(ledger, remote, unit, promotion)
    except (InputError, LedgerError) as error:
        say(f"not written into the ledger of {promotion.winner.campaign}: {error.message}")


def status(
    unit: Unit, remote: Remote = "", directory: Directory = Path("spectune-runs"), as_json: Json = False
) -> None:
    """Show what a service runs now, and what spectune has changed in it."""
    found = assemble.status(remote, unit, password(), _in_service(directory))
    if as_json:
        print_json(asdict(found))
        return
    since = found.active_since
    rows = [
        ("unit", f"{found.unit} on {found.where}"),
        ("state", f"{found.state}, {found.enabled}"),
        ("since", datetime.fromtimestamp(since).astimezone().strftime("%Y-%m-%d %H:%M:%S") if since else "-"),
        *(("starts", command) for command in found.exec_start),
        *(("drop-in", path) for path in found.drop_ins),
        *(("promoted", label) for label in found.promotions or ("nothing",)),
        *(("ledger", line) for line in found.recorded),
    ]
    if found.promoted is False:
        rows.append(("warning", "the latest promotion is not what systemd starts now: somebody has changed it"))
    if found.unknown_to_host:
        rows.append(("warning", "the ledger knows a promotion in force that the host does not: undone from elsewhere?"))
    if found.interrupted:
        rows.append(("warning", f"in the middle of a change by {found.interrupted}; undo: spectune rollback"))
    for name, text in rows:
        results().print(f"{name:<9} {text}", markup=False, highlight=False, soft_wrap=True)


def _in_service(directory: Path) -> tuple[tuple[str, Promoted | RolledBack], ...]:
    """What the ledger here says of promotions; nothing where there is none that can be read."""
    try:
        with assemble.readable(directory) as ledger:
            return ledger.in_service()
    except (InputError, LedgerError):
        return ()


def silent(text: str, fraction: float | None) -> None:
    """Progress that nobody sees, where a question is asked meanwhile."""


def say(text: str) -> None:
    """Tells what is done with the service."""
    messages().print(text, markup=False, highlight=False, soft_wrap=True)


def password() -> Ask:
    """Asks for a sudo password on the terminal; None where there is none."""
    return getpass.getpass if sys.stdin.isatty() else None


def asked_once() -> Ask:
    """The same, and what was typed is remembered as long as this object lives."""
    ask = password()
    return None if ask is None else functools.cache(ask)


def check_promotion(wanted: bool, words: str, unit: str) -> None:
    """Raises InputError where a run can't promote what it finds."""
    if wanted and not unit:
        raise InputError("--promote needs a systemd unit", "Name it in service.unit of the campaign file.")
    if words and not wanted:
        raise InputError("--force goes with --promote")
