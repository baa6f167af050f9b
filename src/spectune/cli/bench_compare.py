"""`spectune bench compare`, and how `bench` is told from its own subcommands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from spectune import assemble
from spectune.cli.bench import bench, show
from spectune.cli.bench_files import read_run
from spectune.cli.inspect import Json
from spectune.cli.screen import results
from spectune.domain.bench_run import RUN_SD, Obstacle
from spectune.report.bench_compare import comparison_report, render_comparison_json

_MEASURE = "measure"


class _UrlOrCommand(TyperGroup):
    """`bench URL ...` measures, and `bench compare ...` compares: what is no subcommand belongs to measuring."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and args[0] in self.commands
        return super().parse_args(ctx, ["--", *([] if named else [_MEASURE]), *args])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return ("" if name == _MEASURE else name), command, rest


app = typer.Typer(
    cls=_UrlOrCommand,
    help="Measure a running server at each load level, or compare two saved runs.",
    rich_markup_mode=None,
    subcommand_metavar="URL | compare A.json B.json",
)


def compare(
    first: Annotated[Path, typer.Argument(help="Saved run to compare with.", metavar="A.json")],
    second: Annotated[Path, typer.Argument(help="Saved run that is compared.", metavar="B.json")],
    despite: Annotated[
        list[Obstacle] | None, typer.Option(help="Compare although this differs; may be repeated.")
    ] = None,
    noise: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="How much a run of the same server differs by itself: standard deviation, relative."
        ),
    ] = RUN_SD,
    as_json: Json = False,
) -> None:
    """Compare two saved runs, level by level.

    For each metric the change with its 95 % interval and a word: faster, slower, no difference shown, not comparable.
    """  # fmt: skip
    runs = read_run(first), read_run(second)
    found = assemble.compare_runs(*runs, despite or (), noise)
    if as_json:
        typer.echo(render_comparison_json(found), nl=False)
    else:
        show(results(), comparison_report(found, str(first), str(second)))


app.command(_MEASURE, hidden=True)(bench)
app.command("compare")(compare)
