"""`spectune bench URL`: a load test of a running server."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from spectune import assemble
from spectune.cli import bench_options, service
from spectune.cli.bench_files import write_run
from spectune.cli.bench_live import LiveBench
from spectune.cli.exits import ExitCode
from spectune.cli.inspect import Json
from spectune.cli.places import check_file
from spectune.cli.screen import messages, results
from spectune.cli.server import Key, MeasureFrom, Model, Url, prompt_source
from spectune.domain.bench_run import BenchRun
from spectune.domain.errors import InputError
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Arrival, Level
from spectune.report.bench_file import dump_run
from spectune.report.bench_flattery import flattery
from spectune.report.bench_flattery_view import flattery_report, render_flattery_json
from spectune.report.bench_table import bench_report
from spectune.report.bench_text import render_bench_csv, render_bench_markdown
from spectune.report.bench_vllm import render_bench_vllm

FLATTERING = "repetitive"
"""The workload that flatters."""


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    VLLM = "vllm"


class Api(StrEnum):
    CHAT = "chat"
    COMPLETIONS = "completions"


def bench(
    url: Url,
    concurrency: Annotated[
        str | None,
        typer.Option(
            help=f"Levels: requests in flight, separated by commas; by default {bench_options.DEFAULT_USERS}."
        ),
    ] = None,
    rates: Annotated[str | None, typer.Option(help="Levels: requests per second, separated by commas.")] = None,
    arrival: Annotated[Arrival, typer.Option(help="How requests arrive at --rates.")] = Arrival.POISSON,
    burstiness: Annotated[
        float | None,
        typer.Option(min=0.01, max=100, help="Of gamma arrivals: squared coefficient of variation of the gaps."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="Most seconds a level.")] = 30.0,
    precision: Annotated[
        float, typer.Option(min=0.001, max=1, help="Stop a level once its interval is this narrow.")
    ] = 0.02,
    prompts: Annotated[
        str, typer.Option(help="builtin, agentic, synthetic:..., a file or a trace; see docs/workloads.md.")
    ] = "builtin",
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Cap on every answer.")] = None,
    temperature: Annotated[
        str, typer.Option(help="Temperatures, separated by commas; 'default' is the server's.")
    ] = "default",
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos", help="Answers of exactly --max-tokens; flatters speculation.")
    ] = False,
    slo: Annotated[
        str | None, typer.Option(help="Goodput: what a good request keeps, like ttft<0.5,tpot<0.05.")
    ] = None,
    api: Annotated[Api, typer.Option(help="Which of OpenAI's endpoints to ask.")] = Api.CHAT,
    model: Model = None,
    api_key: Key = None,
    header: Annotated[
        list[str] | None, typer.Option(help="Another header of every request, 'Name: value'; may be repeated.")
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Do not check the certificate of https.")] = False,
    measure_from: MeasureFrom = None,
    remote: Annotated[
        str, typer.Option("--remote", help="The server's host, as `ssh NAME` calls it, to measure from.")
    ] = "",
    compare_workloads: Annotated[
        bool, typer.Option("--compare-workloads", help="Also measure what flatters speculation, side by side.")
    ] = False,
    form: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE,
    as_json: Json = False,
    save: Annotated[Path | None, typer.Option(help="Also write the run here, for 'spectune bench compare'.")] = None,
    records: Annotated[bool, typer.Option("--records", help="Keep every request in what is written.")] = False,
    push_gateway: Annotated[str | None, typer.Option(help="Prometheus push gateway to send the result to.")] = None,
    push_job: Annotated[str, typer.Option(help="Job name at the push gateway.")] = "spectune",
) -> None:
    """Measure a running server at each load level.

    Tells per-user and aggregate speed, time to first token and acceptance, with 95 % intervals and doubts.
    'spectune bench compare A.json B.json' compares two saved runs.
    """
    form = _form(form, as_json, compare_workloads)
    what = assemble.Bench(
        levels=bench_options.levels(concurrency, rates, arrival, burstiness),
        temperatures=bench_options.temperatures(temperature),
        seconds=seconds,
        precision=precision,
        ignore_eos=ignore_eos,
        slo=bench_options.slo(slo),
        api=api.value,
    )
    _check(what.levels, compare_workloads, save)
    place = bench_options.origin(measure_from, remote)
    source = prompt_source(prompts, max_tokens)
    flattering_source = prompt_source(FLATTERING, max_tokens) if compare_workloads else None
    sent = bench_options.headers(header or ())
    measured: list[MeasuredCell] = []
    flattering: list[MeasuredCell] = []

    with assemble.for_url(url, place, remote, service.password()) as (url_here, origin):
        endpoint = assemble.look(url_here, model, api_key, sent, insecure)
        run = assemble.new_run(endpoint, what, source, origin)
        if origin.words:
            service.say(origin.words)
        live = LiveBench(messages(), len(what.cells) + compare_workloads * len(what.levels))

        def keep(cell: MeasuredCell) -> None:
            nonlocal run
            live.measured(cell)
            measured.append(cell)
            run = run.adding(cell, records)
            if save:  # after each level: what is measured outlasts a server that dies at the next
                write_run(run, save)

        def keep_flattering(cell: MeasuredCell) -> None:
            live.flattered(cell)
            flattering.append(cell)

        listener = assemble.Listener(live.progress, keep, keep_flattering)
        with live:
            assemble.bench(endpoint, what, source, listener, flattering_source, origin)

    if compare_workloads:
        _show_flattery(form, run, flattering)
    else:
        _show(form, run, measured, records)
    if push_gateway:
        from spectune.report.bench_prometheus import push_bench  # its client is not needed otherwise

        push_bench(run, push_gateway, push_job)
    if any(doubt.fatal for m in run.cells for doubt in m.doubts):
        raise typer.Exit(ExitCode.UNDECIDED)


def show(console: Console, parts: Sequence[RenderableType]) -> None:
    """Prints parts one below the other; text is not cut to the console's width."""
    for part in parts:
        console.print(part, highlight=False, soft_wrap=isinstance(part, Text))


def _form(form: Format, as_json: bool, compare_workloads: bool) -> Format:
    if as_json and form not in {Format.TABLE, Format.JSON}:
        raise InputError(f"--json and --format {form.value} contradict each other", "Give one of them.")
    form = Format.JSON if as_json else form
    if compare_workloads and form not in {Format.TABLE, Format.JSON}:
        raise InputError(f"--compare-workloads has no form {form.value}", "Use --format table or --format json.")
    return form


def _check(levels: Sequence[Level], compare_workloads: bool, save: Path | None) -> None:
    """What can be told before anything is measured."""
    if compare_workloads and any(level.arrival is Arrival.TRACE for level in levels):
        raise InputError(
            "--compare-workloads: the flattering prompts have no recorded times",
            "Use --concurrency, or other arrivals.",
        )
    if save:
        check_file(save, "--save")


def _show(form: Format, run: BenchRun, measured: Sequence[MeasuredCell], records: bool) -> None:
    match form:
        case Format.TABLE:
            show(results(), bench_report(run))
        case Format.JSON:
            typer.echo(dump_run(run), nl=False)
        case Format.CSV:
            typer.echo(render_bench_csv(run), nl=False)
        case Format.MARKDOWN:
            typer.echo(render_bench_markdown(run), nl=False)
        case Format.VLLM:
            typer.echo(render_bench_vllm(run, measured, records), nl=False)


def _show_flattery(form: Format, run: BenchRun, flattering: Sequence[MeasuredCell]) -> None:
    found = flattery([cell.measurement for cell in flattering], run.cells)
    if form is Format.JSON:
        typer.echo(render_flattery_json(found), nl=False)
    else:
        show(results(), [*bench_report(run), "", *flattery_report(found)])
