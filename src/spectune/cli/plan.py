"""`spectune plan`: what a run would try, in which order, and what is expected of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spectune import assemble
from spectune.cli import campaign_file
from spectune.cli import service as service_commands
from spectune.cli.inspect import Directory, Json
from spectune.cli.run import File, Prior, check_priors
from spectune.cli.screen import preparing, print_json, results
from spectune.cli.work import site_of, to_go_on_with
from spectune.domain.estimate import Ratio

_NOTHING = "–"
_COLUMNS = 4
"""Levels that a table of 80 columns holds side by side."""


def plan(file: File, directory: Directory = Path("spectune-runs"), prior: Prior = None, as_json: Json = False) -> None:
    """Show what a run would try, in which order, with expected gains, launches and minutes.

    Starts nothing and writes nothing. Forecasts rest on earlier campaigns of the same engine, model and machine in
    --dir and --prior, or on the campaign's own trials if it was interrupted; without any, nothing is foretold.
    """
    spec = campaign_file.load(file)
    check_priors(prior or (), spec.name, directory)
    with site_of(spec, service_commands.password()) as site, preparing() as progress:
        prepared = assemble.prepare(spec, progress, build=False, site=site)
    found = assemble.foreseen(prepared, directory, prior or (), to_go_on_with)
    if as_json:
        print_json({**asdict(found), "minutes": found.minutes})
        return
    results().print(page(found, spec.objective.confidence))


def page(found: assemble.Outlook, confidence: float) -> RenderableType:
    """The plan on a terminal, of 80 columns or more."""
    interval = f"{100 * confidence:g} % interval"
    parts: list[RenderableType] = [Text(line) for line in _basis(found)]
    parts += [*_titled("order, if all comes as expected" if found.sources else "order", _course(found))]
    parts += [Text(f"then: {found.then}"), Text(f"in all: {_cost(found)}")]
    parts += [*_titled(f"candidates; gain over the baseline under the objective, with its {interval}", _rows(found))]
    for title, name in (("per-user speed", "per_user"), ("aggregate speed", "aggregate")):
        for start in range(0, len(found.levels), _COLUMNS):
            levels = found.levels[start : start + _COLUMNS]
            if any(getattr(row, name).get(level) for row in found.rows for level in levels):
                parts += [
                    *_titled(f"{title} against the baseline, %, with its {interval}", _speeds(found, name, levels))
                ]
    if found.crossover is not None:
        parts += [Text(""), Text(_crossed(found.crossover))]
    notes: dict[str, list[str]] = {}
    for row in found.rows:
        notes.setdefault(row.note, []).append(row.label)
    parts += [Text.assemble((", ".join(labels), "bold"), f": {note}") for note, labels in notes.items() if note]
    return Group(*parts)


def _crossed(at: assemble.Crossover) -> str:
    low, high = (f"{users:.0f}" if users is not None else "" for users in (at.low, at.high))
    reach = (
        f" ({low} to {high})" if low and high else f" (at least {low})" if low else f" (at most {high})" if high else ""
    )
    return f"for a user, drafts are expected to pay up to about {at.users:.0f} users{reach}, and to cost above that"


def _titled(title: str, table: Table) -> Iterator[RenderableType]:
    yield Text("")
    yield Text(title, style="bold")
    yield table


def _basis(found: assemble.Outlook) -> Iterator[str]:
    if found.campaign:
        yield f"goes on with campaign {found.campaign}"
    if found.sources:
        yield f"forecasts rest on {'; '.join(found.sources)}. They decide nothing: what may win is measured anew."
    else:
        yield "Nothing is measured yet, so no gain can be foretold. The first launches tell what the others may bring."


def _course(found: assemble.Outlook) -> Table:
    table = _table()
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("candidate", overflow="fold")
    table.add_column("expected", no_wrap=True)
    table.add_column("why", overflow="fold")
    for number, step in enumerate(found.steps, 1):
        table.add_row(str(number), Text(step.label), _gain(step.expected), Text(step.reason))
    return table


def _cost(found: assemble.Outlook) -> str:
    confirming = f", {found.confirming} of them to confirm" if found.confirming else ""
    how = "as long as earlier ones took" if found.learned else "of measuring, and the starts of the server"
    return (
        f"about {found.launches} launches{confirming}, {max(1.0, found.minutes):.0f} minutes {how}; "
        f"the budget allows {found.most} launches"
    )


def _rows(found: assemble.Outlook) -> Table:
    table = _table()
    table.add_column("candidate", overflow="fold")
    table.add_column("launch", justify="right")
    table.add_column("gain", no_wrap=True)
    table.add_column("KV tokens", justify="right", no_wrap=True)
    table.add_column("at a time", justify="right", no_wrap=True)
    for row in found.rows:
        room = row.room
        tokens, running = (room.kv_tokens, room.max_running) if room is not None else (None, None)
        launch = str(row.launch) if row.launch else _NOTHING
        table.add_row(Text(row.label), launch, _gain(row.gain), _count(tokens), _count(running))
    return table


def _speeds(found: assemble.Outlook, name: str, levels: Sequence[str]) -> Table:
    table = _table()
    table.add_column("candidate", overflow="fold")
    for level in levels:
        table.add_column(level, justify="right")
    for row in found.rows:
        told = getattr(row, name)
        if told:
            table.add_row(Text(row.label), *(_short(told.get(level)) for level in levels))
    return table


def _table() -> Table:
    return Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)


def _gain(ratio: Ratio | None) -> str:
    if ratio is None:
        return _NOTHING
    value, low, high = (100 * (one - 1) for one in (ratio.value, ratio.low, ratio.high))
    return f"{value:+.0f} % ({low:+.0f} to {high:+.0f})"


def _short(ratio: Ratio | None) -> str:
    if ratio is None:
        return _NOTHING
    value, low, high = (100 * (one - 1) for one in (ratio.value, ratio.low, ratio.high))
    return f"{value:+.0f} ({low:+.0f}..{high:+.0f})"


def _count(number: int | None) -> str:
    return _NOTHING if number is None else f"{number:,}"
