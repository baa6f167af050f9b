"""`spectune list`, `show` and `report`: what the ledger holds."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from spectune import assemble
from spectune.cli.places import check_file, write_file
from spectune.cli.screen import messages, print_json, results
from spectune.report import ReportData, build, render_csv, render_html, render_json, render_markdown, terminal_report

Directory = Annotated[Path, typer.Option("--dir", help="Where ledger, logs and reports are kept.", metavar="DIR")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Which = Annotated[str | None, typer.Argument(help="Campaign id or name; the newest by default.", metavar="[CAMPAIGN]")]


_ELSEWHERE = "'spectune report --out FILE' writes it elsewhere."


class Format(StrEnum):
    HTML = "html"
    MARKDOWN = "md"
    JSON = "json"
    CSV = "csv"


def list_campaigns(directory: Directory = Path("spectune-runs"), as_json: Json = False) -> None:
    """List the campaigns in the ledger, newest first."""
    with assemble.readable(directory) as ledger:
        rows = ledger.campaigns()
        running = assemble.running(directory, ledger)
    if as_json:
        print_json(
            [{name: getattr(row, name) for name in row.__slots__} | {"running": row.id == running} for row in rows]
        )
        return
    if not rows:
        messages().print("no campaign yet; spectune run and spectune demo run one", highlight=False)
        return
    table = Table("campaign", "begun", "trials", "state", "winner", box=None, pad_edge=False)
    for row in rows:
        begun = datetime.fromtimestamp(row.opened_at).astimezone().strftime("%Y-%m-%d %H:%M")
        state = "ended" if row.ended else "running" if row.id == running else "interrupted"
        winner = f"{row.winner} (simulated)" if row.simulated and row.winner else row.winner
        table.add_row(row.id, begun, str(row.trials), state, winner)
    results().print(table)


def show(which: Which = None, directory: Directory = Path("spectune-runs"), as_json: Json = False) -> None:
    """Show a campaign's answer and trials on the terminal."""
    data = _data(which, directory)
    if as_json:
        typer.echo(render_json(data))
    else:
        results().print(terminal_report(data))


def report(
    which: Which = None,
    directory: Directory = Path("spectune-runs"),
    form: Annotated[Format, typer.Option("--format", help="What to write.")] = Format.HTML,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="File to write; '-' is standard output. By default html goes to DIR/CAMPAIGN.html, and md, json and "
            "csv to standard output.",
        ),
    ] = None,
) -> None:
    """Write a campaign's report: HTML, Markdown, JSON or CSV.

    The HTML is one file that needs no network; its path is printed. The others are printed, unless --out names a file.
    """
    if out is not None and str(out) != "-":
        check_file(out, "--out")
    data = _data(which, directory)
    if form is Format.HTML and (out is None or str(out) != "-"):
        typer.echo(write_html(data, out or directory / f"{data.campaign}.html"))
        return
    render = {
        Format.HTML: render_html,
        Format.MARKDOWN: render_markdown,
        Format.JSON: render_json,
        Format.CSV: render_csv,
    }[form]
    if out is None or str(out) == "-":
        typer.echo(render(data), nl=False)
    else:
        write_file(out, render(data), _ELSEWHERE)
        typer.echo(out)


def write_html(data: ReportData, path: Path) -> Path:
    """Writes the page and returns its absolute path.

    Raises:
        HostError: when it can't be written.
    """
    write_file(path, render_html(data), _ELSEWHERE)
    return path.absolute()


def _data(which: str | None, directory: Path) -> ReportData:
    with assemble.readable(directory) as ledger:
        campaign_id, history = assemble.find_campaign(ledger, which)
    return build(history, campaign_id)
