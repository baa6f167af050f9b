"""The command line: parse, call, print, exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

from spectune import __version__
from spectune.cli import bench_compare, export, inspect, interrupts, plan, run, server, service, write
from spectune.cli.exits import ExitCode, exit_code
from spectune.cli.screen import messages, print_error
from spectune.domain.errors import SpectuneError

_GOES_ON = "the same command goes on from here"
_INTERRUPTED = {
    "run": _GOES_ON,
    "demo": _GOES_ON,
    "bench": "the same command begins anew; --save keeps the levels that were done",
    **dict.fromkeys(("promote", "rollback"), "spectune status tells what the service runs, and what was cut off"),
}
"""Command -> what is true once it was interrupted."""

app = typer.Typer(
    name="spectune",
    help="Finds the speculative-decoding settings that make your served LLM fastest, on your server, with proof.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 decided, 1 no decision, 2 wrong input, 3 engine or host failed, 130 interrupted.",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"spectune {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


app.command()(run.demo)
app.command()(write.init)
app.command()(run.check)
app.command()(plan.plan)
app.command()(run.run)
app.add_typer(bench_compare.app, name="bench")
app.command()(server.verify)
app.command()(service.promote)
app.command()(service.rollback)
app.command()(service.status)
app.command("list")(inspect.list_campaigns)
app.command()(inspect.show)
app.command()(inspect.report)
app.command()(export.export)
app.command()(write.schema)


def main() -> None:
    """Runs the command line and exits with a code that means something."""
    interrupts.listen()
    try:
        code = _run()
    except KeyboardInterrupt:  # again, while the first one was being handled
        code = ExitCode.INTERRUPTED
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if code == ExitCode.INTERRUPTED:
        messages().print(f"interrupted; {_what_now(sys.argv[1:])}", highlight=False)
    sys.exit(code)


def _run() -> int:
    try:
        code = app(standalone_mode=False)
    except SpectuneError as error:
        print_error(error)
        return exit_code(error)
    except TyperException as error:
        said = error.format_message().replace("Value error, ", "")  # pydantic's
        messages().print(f"error: {said}", style="bold red", markup=False, highlight=False)
        messages().print("spectune COMMAND --help tells what a command takes.", highlight=False)
        return ExitCode.WRONG_INPUT
    except typer.Abort:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; nothing can be told any more, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILED
    return code if isinstance(code, int) else ExitCode.DECIDED


def _what_now(words: Sequence[str]) -> str:
    """What is true after a command was interrupted."""
    told = _INTERRUPTED.get(words[0] if words else "", "the same command begins anew")
    return "the same command without --new goes on from here" if told is _GOES_ON and "--new" in words else told
