"""`spectune demo`, `run` and `check`."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from spectune import assemble
from spectune.cli import campaign_file
from spectune.cli import service as service_commands
from spectune.cli.demo import demo_spec
from spectune.cli.exits import ExitCode
from spectune.cli.inspect import Directory, Json, write_html
from spectune.cli.progress import ConsoleObserver
from spectune.cli.screen import messages, preparing, print_json, results
from spectune.domain.errors import InputError
from spectune.domain.history import History
from spectune.domain.spec import CampaignSpec
from spectune.domain.verdict import Conclusion
from spectune.report import build, render_json, terminal_report

File = Annotated[Path, typer.Argument(help="Campaign file; write one with: spectune init", metavar="FILE")]
New = Annotated[
    bool, typer.Option("--new", help="Begin anew, even if an interrupted campaign of this name could go on.")
]
Binary = Annotated[
    str, typer.Option("--engine-binary", help="llama-server to use; 'auto' takes PATH's, else builds one, once.")
]
Minutes = Annotated[float, typer.Option(min=0.5, help="Stop proposing after so many minutes.")]


def demo(
    directory: Directory = Path("spectune-runs"),
    binary: Binary = "auto",
    minutes: Minutes = 9.0,
    new: New = False,
    as_json: Json = False,
) -> None:
    """Tune a real llama-server on this machine (10 minutes).

    Takes the built-in model and prompts. Sets everything up the first time: fetches a small model, and builds
    llama-server from source unless there is one.
    """
    raise typer.Exit(_campaign(demo_spec(assemble.usable_cores(), binary, minutes), directory, new, as_json))


def run(
    file: File,
    directory: Directory = Path("spectune-runs"),
    new: New = False,
    as_json: Json = False,
    promote: Annotated[bool, typer.Option("--promote", help="Write a winner into the systemd service.")] = False,
    words: service_commands.Words = "",
) -> None:
    """Run a campaign, or go on with one that was interrupted."""
    spec = campaign_file.load(file)
    service_commands.check_promotion(promote, words, spec.service.unit)
    raise typer.Exit(_campaign(spec, directory, new, as_json, words if promote else None))


def check(file: File, as_json: Json = False) -> None:
    """Check a campaign file, and say what a run would do.

    Checks all that can be checked without starting anything: keys, program, model, flags, port, prompts.
    """
    spec = campaign_file.load(file)
    with _site(spec) as site, preparing() as progress:
        prepared = assemble.prepare(spec, progress, build=False, site=site)
    plan = assemble.plan(prepared)
    if as_json:
        print_json(plan)
        return
    console = results()
    for name, text in plan.items():
        lines = text if isinstance(text, list) else [text]
        for index, line in enumerate(lines):
            console.print(f"{name if index == 0 else '':<12} {line}", markup=False, highlight=False, soft_wrap=True)


def _site(spec: CampaignSpec) -> AbstractContextManager[assemble.Site | None]:
    """The systemd service that is tuned; None where spectune has servers of its own."""
    if not spec.service.unit:
        return nullcontext()
    return assemble.site(spec.service, service_commands.password(), service_commands.say)


def _campaign(spec: CampaignSpec, directory: Path, new: bool, as_json: bool, words: str | None = None) -> ExitCode:
    """Args:
    words: see promote; None where nothing is to be promoted.
    """
    console = messages()
    with assemble.writable(directory) as ledger, _site(spec) as site:
        with preparing() as progress:
            prepared = assemble.prepare(spec, progress, site=site)
        if site is not None and site.way.words:
            service_commands.say(site.way.words)
        going_on = None if new else _to_go_on_with(assemble.unfinished(ledger, spec.name), prepared)
        campaign_id = going_on[0] if going_on else assemble.open_campaign(ledger, prepared)
        _headline(console, campaign_id, prepared)
        with assemble.around(site):
            with ConsoleObserver(console, time.monotonic) as observer:
                conclusion = assemble.campaign(ledger, campaign_id, prepared, directory, observer, site=site).run()
            history = History.of(ledger.events(campaign_id))
            if site is not None and words is not None and conclusion.changed:
                _promote(site, prepared, campaign_id, history, words)
    _finish(history, campaign_id, directory, as_json)
    return _code(conclusion)


def _promote(site: assemble.Site, prepared: assemble.Prepared, campaign_id: str, history: History, words: str) -> None:
    winner = assemble.chosen(history, None)
    done = assemble.promote_within(site, prepared.engine, campaign_id, history, winner, words)
    service_commands.say(f"promoted {winner.label}" if done else f"{winner.label} is promoted already")


def _to_go_on_with(found: tuple[str, History] | None, prepared: assemble.Prepared) -> tuple[str, History] | None:
    """An interrupted campaign, when it may go on: its settings are the same but for the budget, and so is all else."""
    if found is None:
        return None
    campaign_id, history = found
    if replace(history.opened.spec, budget=prepared.spec.budget) != assemble.without_secrets(prepared.spec):
        raise InputError(
            f"campaign {campaign_id} was interrupted, and the settings are no longer those it began with",
            "Put them back to go on with it (the budget may change), or begin anew with --new.",
        )
    _same_machinery(history, prepared)
    return found


def _same_machinery(history: History, prepared: assemble.Prepared) -> None:
    """Trials before and after an interruption must not differ in the engine, the model or the prompts."""
    old, now = history.opened.provenance, prepared.provenance
    changed = [role for role in old.files.keys() | now.files.keys() if old.files.get(role) != now.files.get(role)]
    if old.workload.sha256 != now.workload.sha256:
        changed.append("workload")
    if old.hardware.cpu != now.hardware.cpu or old.hardware.gpus != now.hardware.gpus:
        changed.append("hardware")
    if changed:
        raise InputError(
            f"since the campaign was interrupted, this has changed: {', '.join(sorted(changed))}",
            "Its trials could not be compared. Begin anew with --new.",
        )


def _headline(console: Console, campaign_id: str, prepared: assemble.Prepared) -> None:
    provenance, spec = prepared.provenance, prepared.spec
    levels = ", ".join(f"{users:g}" for users in spec.workload.concurrency)
    temperatures = ", ".join("default" if t is None else f"{t:g}" for t in spec.workload.temperatures)
    machine = provenance.hardware
    console.print(f"[bold]{campaign_id}[/bold]", highlight=False)
    for line in (
        f"{spec.service.engine} {provenance.engine_version} serving {Path(spec.service.model).name}",
        f"{machine.cores} cores of {machine.cpu}, {machine.memory_bytes / 2**30:.0f} GiB"
        + "".join(f", {g}" for g in machine.gpus),
        f"users: {levels}; temperatures: {temperatures}",
        f"at most {spec.budget.minutes:g} minutes and {spec.budget.trials} launches",
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _finish(history: History, campaign_id: str, directory: Path, as_json: bool) -> None:
    data = build(history, campaign_id)
    page = write_html(data, directory / f"{campaign_id}.html")
    if as_json:
        typer.echo(render_json(data))
    else:
        console = results()
        console.print()
        console.print(terminal_report(data))
        console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)


def _code(conclusion: Conclusion) -> ExitCode:
    return ExitCode.UNDECIDED if conclusion.winner is None else ExitCode.DECIDED
