"""The report on a terminal. The caller's console decides on colours and width; every mark is a word too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.box import HORIZONTALS, SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from spectune.domain.metrics import METRICS
from spectune.domain.trial import TrialState
from spectune.report import words
from spectune.report.model import AnswerKind, BestRow, CandidateData, Held, Interval, NoteKind, ReportData

WIDE = 100
"""Columns from which tables show everything."""

_Gain = Callable[[Interval | None], str]
_LOAD, _NARROW = 12, 12
"""Columns of the load, and the fewest that a kind of text gets."""

_BORDER = {
    AnswerKind.CHANGE: "green",
    AnswerKind.STAY: "blue",
    AnswerKind.UNDECIDED: "yellow",
    AnswerKind.UNFINISHED: "yellow",
}
_HELD = {Held.YES: "green", Held.NO: "red", Held.UNKNOWN: "yellow"}
_LOSSES = 3
"""Shown on a terminal, the largest."""


def terminal_report(data: ReportData) -> RenderableType:
    """The answer, the best settings, the candidates and the notes; narrower consoles get narrower tables."""
    return _Report(data)


class _Report:
    """Renders at whatever width it is given."""

    def __init__(self, data: ReportData) -> None:
        self._data = data

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        data, wide = self._data, options.max_width >= WIDE
        yield _answer(data)
        if data.best:
            yield from _section(_best(data, options.max_width))
        for temperature in data.temperatures:
            shown = [c for c in data.candidates if c.trials]
            if shown:
                yield from _section(_speeds(data, shown, temperature, wide))
        if data.answer.notes:
            yield from _section(_notes(data))


def _section(content: RenderableType) -> Iterator[RenderableType]:
    yield Text("")
    yield content


def _answer(data: ReportData) -> Panel:
    said = data.answer
    lines: list[RenderableType] = [Text(said.headline, style="bold")]
    if said.gain:
        level = f"{100 * said.gain.confidence:g} % interval"
        lines.append(Text(f"{METRICS[data.objective].title}: {words.gain_spread(said.gain)}, {level}, all levels"))
    lines.append(Text(said.reason, style="dim"))
    for sign, flags in (("add", said.add), ("drop", said.drop)):
        if flags:
            lines += [Text(""), Text(f"{sign}:")]
            lines += [Padding(Text(flag, style="cyan", overflow="fold"), (0, 0, 0, 2)) for flag in flags]
    changed = [c for c in said.costs if c.before != c.after]
    if said.costs:
        same = [f"{c.name} {c.after}" for c in said.costs if c not in changed]
        differs = [f"{c.name} {c.before} → {c.after}" for c in changed]
        lines += [Text(""), Text("room: " + "; ".join([*differs, *same]))]
    for loss in said.losses[:_LOSSES]:
        lines.append(Text(f"slower: {loss.name}: {loss.before} → {loss.after}", style="yellow"))
    if len(said.losses) > _LOSSES:
        lines.append(Text(f"slower: {len(said.losses) - _LOSSES} more, in the report", style="yellow"))
    for check in said.constraints:
        held = Text(f"{check.held.value}: ", style=_HELD[check.held])
        lines.append(held + Text(f"{check.name}, {check.wanted}; seen {check.seen}", style="default"))
    title = Text.assemble(("spectune", "bold"), f" · {data.name}")
    foot = Text(words.measured_on(data), style="dim")
    return Panel(Group(*lines), title=title, subtitle=foot, title_align="left", subtitle_align="left",
                 border_style=_BORDER[said.kind], padding=(1, 2))  # fmt: skip


def _best(data: ReportData, width: int) -> Table:
    domains = ["", *data.domains]
    found = {(row.cell, row.domain): row for row in data.best}
    for gain in (words.gain_spread, words.gain_bounds):
        columns = _columns(data, domains, gain, width)
        if columns:
            break
    else:
        return _best_by_line(data)
    table = _best_table()
    table.add_column("load", no_wrap=True)
    for domain, wide in zip(domains, columns, strict=True):
        table.add_column(Text(_heading(domain)), width=wide)
    for cell in data.cells:
        cells = [found.get((cell.key, domain)) for domain in domains]
        if any(cells):
            load = Text(f"{cell.level_label}\n").append(_short_temperature(cell.temperature), "dim")
            table.add_row(load, *(_slice(data, row, gain) for row in cells), end_section=True)
    table.caption = Text("≈ can't be told apart from it; “as it is”: nothing is provably better", style="dim")
    table.caption_justify = "left"
    return table


def _columns(data: ReportData, domains: Sequence[str], gain: _Gain, width: int) -> list[int]:
    """Widths of the kinds of text, none of which breaks a gain in two; empty where they don't fit side by side."""
    needs, wishes = [], []
    for domain in domains:
        rows = [row for row in data.best if row.domain == domain]
        gains = [len(gain(row.ratio)) for row in rows if not row.is_baseline]
        lines = [line for row in rows for line in _slice(data, row, gain).plain.splitlines()]
        needs.append(max([_NARROW, *gains]))
        wishes.append(max(map(len, [_heading(domain), *lines])))
    spare = width - _LOAD - sum(needs) - len(needs)
    if spare < 0:
        return []
    widths = []
    for need, wish in zip(needs, wishes, strict=True):
        more = min(spare, max(0, wish - need))
        widths.append(need + more)
        spare -= more
    return widths


def _heading(domain: str) -> str:
    return words.domain(domain) if domain else "all text"


def _best_table() -> Table:
    title = Text("best setting by load and kind of text", style="bold")
    return Table(title=title, box=SIMPLE_HEAD, title_justify="left", padding=(0, 1, 0, 0), pad_edge=False)


def _slice(data: ReportData, row: BestRow | None, gain: _Gain) -> Text:
    if row is None:
        return Text(words.NOTHING)
    tie = f"\n≈ {data.label(row.runner_up)}" if row.runner_up else ""
    if row.is_baseline:
        return Text("as it is", style="dim").append(tie, "dim")
    told = Text(data.label(row.candidate), style="bold").append(f"\n{gain(row.ratio)}", "green not bold")
    return told.append(tie, "dim not bold")


def _best_by_line(data: ReportData) -> Table:
    """The same with one line a slice, where the kinds of text do not fit side by side."""
    table = _best_table()
    for heading in ("load", "text", "best", "gain"):
        table.add_column(heading, no_wrap=heading == "gain")
    for row in data.best:
        cell = data.cell(row.cell)
        load = f"{cell.level_label}, {_short_temperature(cell.temperature)}"
        best = "as it is" if row.is_baseline else data.label(row.candidate)
        tie = f" ≈ {data.label(row.runner_up)}" if row.runner_up else ""
        table.add_row(load, Text(words.domain(row.domain)), Text(best + tie), words.gain_spread(row.ratio))
    return table


def _short_temperature(temperature: float | None) -> str:
    return "own sampling" if temperature is None else f"temp. {temperature:g}"


def _speeds(data: ReportData, shown: list[CandidateData], temperature: float | None, wide: bool) -> Table:
    cells = data.cells_at(temperature)
    title = f"per-user speed ± half interval, aggregate speed (tok/s); {cells[0].temperature_label}"
    table = Table(
        title=Text(title, style="bold"), box=HORIZONTALS, title_justify="left", padding=(0, 1, 0, 0), pad_edge=False
    )
    table.add_column("candidate", overflow="fold", min_width=14)
    stacked = len(cells) > SIDE_BY_SIDE
    for cell in cells:
        table.add_column(cell.level_label, justify="right", no_wrap=True)
    table.add_column("accept\nlength", justify="right")
    if wide:
        table.add_column("KV room,\ntokens", justify="right")
        table.add_column("KV\nmemory", justify="right")
        table.add_column("trials")
    for candidate in shown:
        row = next((r for r in candidate.acceptance if r.temperature == temperature and not r.domain), None)
        length = words.NOTHING if row is None or row.length is None else f"{row.length:.2f}"
        texts = [_speed(candidate, cell.key, stacked) for cell in cells] + [Text(length)]
        if wide:
            room = candidate.room
            texts += [Text(words.count(room.kv_tokens)), Text(words.size(room.kv_bytes)), Text(_numbers(candidate))]
        name = Text(candidate.label, style="bold" if candidate.is_answer else "")
        table.add_row(name.append(" (now)" if candidate.is_baseline else "", "dim not bold"), *texts)
    return table


def _speed(candidate: CandidateData, key: str, stacked: bool) -> Text:
    """Per-user speed, and the aggregate beside it or, where many levels share the line, below."""
    cell = next(cell for cell in candidate.cells if cell.cell == key)
    together = words.number(cell.aggregate.value) if cell.aggregate else words.NOTHING
    return Text(f"{words.plus_minus(cell.per_user)}").append(f"\n{together}" if stacked else f" {together:>5}", "dim")


def _numbers(candidate: CandidateData) -> str:
    return ", ".join(map(str, candidate.trials))


def _notes(data: ReportData) -> RenderableType:
    style = {NoteKind.MARK: "bold yellow", NoteKind.WARNING: "yellow", NoteKind.INFO: ""}
    sign = {NoteKind.MARK: "!!", NoteKind.WARNING: "!", NoteKind.INFO: "-"}
    table = Table.grid(padding=(0, 1))
    table.add_column(width=2, justify="right")
    table.add_column()
    for note in data.answer.notes:
        table.add_row(Text(sign[note.kind], style=style[note.kind]), Text(note.text, style=style[note.kind]))
    running = [t.number for t in data.trials if t.state is TrialState.RUNNING]
    if running:
        table.add_row(Text("-"), Text(f"Trial {running[-1]} has not ended."))
    return Group(Text("before you believe it", style="bold"), table)


SIDE_BY_SIDE = 3
"""Levels whose two speeds fit on one line."""
