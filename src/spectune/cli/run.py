"""`spectune demo`, `run` and `check`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from spectune import assemble
from spectune.cli import bench_options, campaign_file
from spectune.cli import service as service_commands
from spectune.cli.demo import demo_spec
from spectune.cli.exits import ExitCode
from spectune.cli.inspect import Directory, Json, write_html
from spectune.cli.screen import preparing, print_error, print_json, results
from spectune.cli.server import MeasureFrom
from spectune.cli.windows import in_windows
from spectune.cli.work import Work, manners, site_of
from spectune.domain.errors import InputError
from spectune.domain.history import History
from spectune.domain.spec import CampaignSpec
from spectune.domain.verdict import Conclusion
from spectune.domain.window import Window
from spectune.report import build, render_json, terminal_report

File = Annotated[Path, typer.Argument(help="Campaign file; write one with: spectune init", metavar="FILE")]
New = Annotated[
    bool, typer.Option("--new", help="Begin anew, even if an interrupted campaign of this name could go on.")
]
Binary = Annotated[
    str, typer.Option("--engine-binary", help="llama-server to use; 'auto' takes PATH's, else builds one, once.")
]
Prior = Annotated[
    list[Path] | None,
    typer.Option(
        "--prior",
        help="Another directory whose campaigns of the same engine, model and machine tell a new one where to begin.",
        metavar="DIR",
    ),
]
Minutes = Annotated[float, typer.Option(min=0.5, help="Stop proposing after so many minutes.")]


def demo(
    directory: Directory = Path("spectune-runs"),
    binary: Binary = "auto",
    minutes: Minutes = 7.5,
    new: New = False,
    as_json: Json = False,
) -> None:
    """Tune a real llama-server on this machine (about 8 minutes).

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
    between: Annotated[
        str | None, typer.Option(metavar="01:00-05:00", help="Work in this time of the day only; pause outside it.")
    ] = None,
    measure_from: MeasureFrom = None,
    prior: Prior = None,
) -> None:
    """Run a campaign, or go on with one that was interrupted."""
    spec = campaign_file.load(file)
    if between is not None:
        spec = replace(spec, budget=replace(spec.budget, between=Window.parse(between).label))
    if measure_from is not None:
        bench_options.check_place(measure_from)
        spec = replace(spec, service=replace(spec.service, measure_from=measure_from))
    service_commands.check_promotion(promote, words, spec.service.unit)
    check_priors(prior or (), "" if new else spec.name, directory)
    raise typer.Exit(_campaign(spec, directory, new, as_json, words if promote else None, prior or ()))


def check_priors(priors: Sequence[Path], name: str, directory: Path) -> None:
    """Before anything is built, or a service stopped, for a campaign that could not begin. One that goes on was told
    all by them when it began, whatever has become of them.

    Args:
        name: of the campaign that goes on if it was interrupted; "" for one that begins anew.
        directory: where that one is kept.

    Raises:
        InputError: a directory has no ledger.
        LedgerError: it can't be read.
    """
    if not priors or (name and assemble.is_unfinished(directory, name)):
        return
    for prior in priors:
        with assemble.readable(prior, "--prior") as ledger:
            ledger.campaigns()


def check(file: File, as_json: Json = False) -> None:
    """Check a campaign file, and say what a run would do.

    Checks all that can be checked without starting anything: keys, program, model, flags, port, prompts.
    """
    spec = campaign_file.load(file)
    with site_of(spec, service_commands.password()) as site, preparing() as progress:
        prepared = assemble.prepare(spec, progress, build=False, site=site)
    plan = {**assemble.plan(prepared), **manners(spec)}
    if as_json:
        print_json(plan)
        return
    console = results()
    for name, text in plan.items():
        lines = text if isinstance(text, list) else [text]
        for index, line in enumerate(lines):
            console.print(f"{name if index == 0 else '':<12} {line}", markup=False, highlight=False, soft_wrap=True)


def _campaign(
    spec: CampaignSpec,
    directory: Path,
    new: bool,
    as_json: bool,
    words: str | None = None,
    prior: Sequence[Path] = (),
) -> ExitCode:
    """Args:
    words: see promote; None where nothing is to be promoted.
    """
    with assemble.writable(directory) as ledger:
        work = Work(spec, directory, ledger, words, new, prior)
        if spec.budget.between is None:
            conclusion = work.to_the_end()
        else:
            window = Window.parse(spec.budget.between)
            conclusion = in_windows(window, partial(work.within, window), assemble.SystemClock(), service_commands.say)
        history = work.history
    _finish(history, work.campaign_id, directory, as_json)
    if work.refused is None:
        return _code(conclusion)
    if not isinstance(work.refused, InputError):
        raise work.refused
    print_error(work.refused)
    return ExitCode.UNDECIDED


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
