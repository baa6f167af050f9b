"""`spectune export`: what a campaign measured, for other tools."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from spectune import assemble
from spectune.cli.inspect import Directory, Which
from spectune.cli.places import check_file, write_file
from spectune.cli.screen import messages


class What(StrEnum):
    SURFACE = "surface"
    ACCEPTANCE = "acceptance"


def export(
    which: Which = None,
    directory: Directory = Path("spectune-runs"),
    what: Annotated[
        What,
        typer.Option(
            "--what",
            help="surface: CSV, speed, acceptance and room by candidate and load. acceptance: JSON, accepted tokens "
            "a step by depth, as AIConfigurator takes them (--nextn, --nextn-accepted).",
        ),
    ] = What.SURFACE,
    out: Annotated[Path, typer.Option("--out", help="File to write; '-' is standard output.")] = Path("-"),
) -> None:
    """Write what a campaign measured for other tools: the speed surface, or acceptance for AIConfigurator.

    Measurements alone, no verdicts. What is simulated or made up by the engine is marked in the surface and left out
    of the acceptance.
    """
    if str(out) != "-":
        check_file(out, "--out")
    with assemble.readable(directory) as ledger:
        _, history = assemble.find_campaign(ledger, which)
    if what is What.SURFACE:
        text = assemble.surface_csv(history)
    else:
        found = assemble.acceptance_export(history)
        text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
        if not found["candidates"]:
            messages().print(
                "nothing to export: no candidate drafted a chain at every step and told its real acceptance",
                highlight=False,
                soft_wrap=True,
            )
    if str(out) == "-":
        typer.echo(text, nl=False)
        return
    write_file(out, text, "name another file with --out.")
    typer.echo(out)
