"""`spectune verify`: for a server that runs already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.markup import escape

from spectune import assemble
from spectune.cli.exits import ExitCode
from spectune.cli.inspect import Json
from spectune.cli.screen import messages, print_json, results
from spectune.domain.candidate import Method
from spectune.domain.errors import InputError
from spectune.domain.finding import Finding, Status

Url = Annotated[str, typer.Argument(help="Base URL of the server: http://host:8000")]
Model = Annotated[str | None, typer.Option(help="Model name to send; by default the only one served.")]
MeasureFrom = Annotated[
    str | None,
    typer.Option(
        "--measure-from",
        help="Where the load comes from: here, host, or host:/path/to/python with the same spectune there.",
    ),
]
Key = Annotated[str | None, typer.Option(envvar="SPECTUNE_API_KEY", help="API key; better given in the environment.")]
Prompts = Annotated[str, typer.Option(help="builtin, agentic, or a file; see docs/workloads.md.")]

_STYLES = {Status.OK: "green", Status.VIOLATED: "bold red", Status.UNKNOWN: "yellow"}


def verify(
    url: Url,
    method: Annotated[
        Method | None, typer.Option(help="Speculation that should be live; by default what the server says.")
    ] = None,
    depth: Annotated[int, typer.Option(min=0, help="Depth k that should be in effect.")] = 0,
    against: Annotated[
        str | None, typer.Option(help="URL of a server whose answers count as right; compares answers.")
    ] = None,
    probes: Annotated[
        int | None,
        typer.Option(min=8, max=64, help="With --against: prompts for greedy answers; 64 by default, fewer see less."),
    ] = None,
    sampled: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="With --against: how often each of 8 prompts is asked to compare sampled answers; 40 by default, "
            "fewer see less, 0 asks none.",
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(min=0, max=5, help="With --against: of sampled answers; by default each server's own."),
    ] = None,
    prompts: Prompts = "builtin",
    model: Model = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """Check that a running server really speculates, or answers as another does.

    Right model, speculation live and drafting under load, answers sound. With --against only the answers are compared:
    greedy ones, alone and in company, and how the first words of sampled ones are distributed.

    Exits with 0 when every check is ok, 1 when something could not be told, 3 when a check is violated.
    """
    what = _comparison(against, probes, sampled, temperature)
    endpoint = assemble.look(url, model, api_key)
    with _status(f"checking {endpoint.model_id}") as progress:
        source = assemble.prompt_source(prompts, 64)
        if against is None:
            findings = assemble.verify(endpoint, method, depth, source, progress).findings
        else:
            reference = assemble.look(against, None, api_key)
            findings = assemble.against(endpoint, reference, source, progress, what).findings
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        _print_findings(findings)
    statuses = {finding.status for finding in findings}
    if Status.VIOLATED in statuses:
        raise typer.Exit(ExitCode.FAILED)
    if Status.UNKNOWN in statuses:
        raise typer.Exit(ExitCode.UNDECIDED)


def _comparison(
    against: str | None, probes: int | None, sampled: int | None, temperature: float | None
) -> assemble.Comparison:
    """What the options ask of two servers.

    Raises:
        InputError: they ask for what can't be, or are given without another server.
    """
    if against is None:
        for name, value in (("--probes", probes), ("--sampled", sampled), ("--temperature", temperature)):
            if value is not None:
                raise InputError(f"{name} says nothing without another server", "Add --against URL.")
    plain = assemble.Comparison()
    return assemble.Comparison(
        size=plain.size if probes is None else replace(plain.size, prompts=probes),
        times=plain.times if sampled is None else sampled,
        temperature=temperature,
    )


def _print_findings(findings: tuple[Finding, ...]) -> None:
    console = results()
    for finding in findings:
        style = _STYLES[finding.status]
        console.print(
            f"[{style}]{finding.status.value:<9}[/{style}] {finding.check:<24} {escape(finding.seen)}", soft_wrap=True
        )
        if finding.status is not Status.OK:
            for line in (finding.why, finding.advice):
                console.print(f"{'':<35}{line}", style="dim", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _status(text: str) -> Iterator[Callable[[str], None]]:
    """A live line on terminals, silence elsewhere."""
    console = messages()
    if not console.is_terminal:
        yield lambda news: None
        return
    with console.status(text, spinner="dots") as status:
        yield lambda news: status.update(escape(f"{text}: {news}"))
