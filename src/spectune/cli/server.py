"""`spectune verify`: for a server that runs already."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from spectune import assemble
from spectune.cli.exits import ExitCode
from spectune.cli.inspect import Json
from spectune.cli.screen import messages, print_json, results, working
from spectune.domain.candidate import Method
from spectune.domain.errors import InputError
from spectune.domain.finding import Finding, Status
from spectune.domain.ports import PromptSource

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
    log: Annotated[
        Path | None,
        typer.Option(
            "--log",
            help="What the server has written since its start, for the checks that need it; of a unit: "
            "journalctl -u UNIT -o cat --since START > FILE.",
            metavar="FILE",
        ),
    ] = None,
    model: Model = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """Check that a running server really speculates, or answers as another does.

    Right model, speculation live and drafting under load, answers sound. With --against only the answers are compared:
    greedy ones, alone and in company, and how the first words of sampled ones are distributed.

    Exits with 0 when every check is ok, 1 when something could not be told, 3 when a check is violated. Checks that
    need the server's log are not made without --log, and named at the end.
    """
    what = _comparison(against, probes, sampled, temperature)
    if against is not None and log is not None:
        raise InputError("--log says nothing with --against: only answers are compared", "Leave one of them out.")
    written = None if log is None else _read(log)
    source = prompt_source(prompts, 64)
    endpoint = assemble.look(url, model, api_key)
    not_asked: tuple[str, ...] = ()
    with working(f"checking {endpoint.model_id}") as progress:
        if against is None:
            found = assemble.verify(endpoint, method, depth, source, progress, written)
            findings, not_asked = found.findings, found.not_asked
        else:
            reference = assemble.look(against, None, api_key)
            findings = assemble.against(endpoint, reference, source, progress, what).findings
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        _print_findings(findings)
    if not_asked:
        console = messages() if as_json else results()
        console.print(
            f"not checked without a log: {', '.join(not_asked)}; --log FILE checks them",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip
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


def prompt_source(words: str, max_tokens: int | None) -> PromptSource:
    """The prompts that an option asks for.

    Raises:
        InputError: there are none; it names the option.
    """
    try:
        return assemble.prompt_source(words, max_tokens)
    except InputError as error:
        raise InputError(error.message.replace("workload.source", "--prompts"), error.advice) from error


def _read(log: Path) -> str:
    """Raises InputError where it can't be read, or holds nothing to look at."""
    try:
        text = log.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise InputError(
            f"--log: cannot read {log}: {error.strerror}", "Name the file that the server writes."
        ) from error
    if not text.strip():
        raise InputError(f"--log: {log} is empty", "Give what the server has written since its start.")
    return text
