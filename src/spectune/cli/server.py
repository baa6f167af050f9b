"""`spectune bench` and `verify`: for a server that runs already."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from pydantic import TypeAdapter
from rich.markup import escape
from rich.table import Table

from spectune import assemble
from spectune.cli.exits import ExitCode
from spectune.cli.inspect import Json
from spectune.cli.screen import messages, print_json, results
from spectune.domain.candidate import Method
from spectune.domain.errors import InputError
from spectune.domain.estimate import Estimate
from spectune.domain.finding import Finding, Status
from spectune.domain.measurement import Measurement
from spectune.domain.metrics import MetricName

Url = Annotated[str, typer.Argument(help="Base URL of the server: http://host:8000")]
Model = Annotated[str | None, typer.Option(help="Model name to send; by default the only one served.")]
Key = Annotated[str | None, typer.Option(envvar="SPECTUNE_API_KEY", help="API key; better given in the environment.")]
Prompts = Annotated[str, typer.Option(help="JSONL file of prompts, or 'builtin'.")]

_STYLES = {Status.OK: "green", Status.VIOLATED: "bold red", Status.UNKNOWN: "yellow"}


def bench(
    url: Url,
    concurrency: Annotated[str, typer.Option(help="Load levels: requests in flight, separated by commas.")] = "1,4,16",
    temperature: Annotated[
        str, typer.Option(help="Temperatures, separated by commas; 'default' is the server's.")
    ] = "default",
    seconds: Annotated[float, typer.Option(min=1, help="Most seconds a level.")] = 30.0,
    precision: Annotated[
        float, typer.Option(min=0.001, max=1, help="Stop a level once its interval is this narrow.")
    ] = 0.02,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Cap on every answer.")] = None,
    prompts: Prompts = "builtin",
    model: Model = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """Measure a running server at each load level.

    Tells per-user and aggregate speed, time to first token and acceptance, with 95 % intervals and doubts.
    """
    endpoint = assemble.look(url, model, api_key)
    what = assemble.Bench(
        tuple(_levels(concurrency)),
        tuple(None if t == "default" else float(t) for t in _temperatures(temperature)),
        seconds,
        precision,
    )
    with _status(f"measuring {endpoint.model_id}") as progress:
        measured = assemble.bench(endpoint, what, assemble.prompt_source(prompts, max_tokens), progress)
    measurements = [cell.measurement for cell in measured]
    if as_json:
        adapter = TypeAdapter(list[Measurement])
        print_json(
            {"url": endpoint.url, "model": endpoint.model_id, "cells": adapter.dump_python(measurements, mode="json")}
        )
    else:
        _print_measurements(endpoint.model_id, measurements)
    if any(doubt.fatal for m in measurements for doubt in m.doubts):
        raise typer.Exit(ExitCode.UNDECIDED)


def verify(
    url: Url,
    method: Annotated[
        Method | None, typer.Option(help="Speculation that should be live; by default what the server says.")
    ] = None,
    depth: Annotated[int, typer.Option(min=0, help="Depth k that should be in effect.")] = 0,
    prompts: Prompts = "builtin",
    model: Model = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """Check that a running server really speculates.

    Right model, speculation live and drafting under load, answers sound.

    Exits with 0 when every check is ok, 1 when something could not be told, 3 when a check is violated.
    """
    endpoint = assemble.look(url, model, api_key)
    with _status(f"checking {endpoint.model_id}") as progress:
        findings = assemble.verify(endpoint, method, depth, assemble.prompt_source(prompts, 64), progress).findings
    if as_json:
        print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        _print_findings(findings)
    statuses = {finding.status for finding in findings}
    if Status.VIOLATED in statuses:
        raise typer.Exit(ExitCode.FAILED)
    if Status.UNKNOWN in statuses:
        raise typer.Exit(ExitCode.UNDECIDED)


def _print_measurements(model: str, measurements: list[Measurement]) -> None:
    console = results()
    heads = ("per user (tok/s)", "in all (tok/s)", "TTFT p50, p99 (ms)", "TPOT p50, p99 (ms)", "tokens a step")
    table = Table("", *heads, box=None, pad_edge=False)
    for m in measurements:
        length = m.acceptance.length if m.acceptance else None
        table.add_row(
            m.cell.label,
            _speed(m.metrics.get(MetricName.PER_USER_SPEED)),
            _speed(m.metrics.get(MetricName.AGGREGATE_SPEED)),
            _times(m, MetricName.TTFT_P50, MetricName.TTFT_P99),
            _times(m, MetricName.TPOT_P50, MetricName.TPOT_P99),
            f"{length:.2f}" if length else "-",
        )
    console.print(f"{model}; half-widths of 95 % intervals", markup=False, highlight=False)
    console.print(table)
    for m in measurements:
        for doubt in m.doubts:
            text = f"doubt, {m.cell.label}: {doubt.message}. {doubt.advice}"
            console.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


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


def _speed(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    width = estimate.half_width
    return f"{estimate.value:.4g}" + (f" ±{100 * width:.0f} %" if width < 10 else " ±?")


def _times(measurement: Measurement, *names: MetricName) -> str:
    """Milliseconds, separated by commas."""
    found = [measurement.metrics.get(name) for name in names]
    return ", ".join("-" if estimate is None else f"{1000 * estimate.value:.3g}" for estimate in found)


def _levels(text: str) -> Iterator[int]:
    for word in (part.strip() for part in text.split(",")):
        if not word.isdecimal() or int(word) < 1:
            raise InputError(f"--concurrency: {word!r} is no number of requests", "Separate them by commas: 1,4,16")
        yield int(word)


def _temperatures(text: str) -> Iterator[str]:
    for word in (part.strip() for part in text.split(",")):
        try:
            ok = word == "default" or 0 <= float(word) <= 5
        except ValueError:
            ok = False
        if not ok:
            raise InputError(f"--temperature: {word!r} is no temperature", "Numbers from 0 to 5, or 'default'.")
        yield word


@contextmanager
def _status(text: str) -> Iterator[Callable[[str], None]]:
    """A live line on terminals, silence elsewhere."""
    console = messages()
    if not console.is_terminal:
        yield lambda news: None
        return
    with console.status(text, spinner="dots") as status:
        yield lambda news: status.update(escape(f"{text}: {news}"))
