"""The table of a load test on a terminal, while it grows and at the end."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from spectune.domain.bench_run import BenchRun
from spectune.domain.measurement import Measurement
from spectune.domain.metrics import MetricName
from spectune.report import bench_words as say
from spectune.report.terminal import WIDE


class BenchTable:
    """One line a cell; narrow consoles get level and sampling below each other.

    Args:
        measurements: in the order in which they are shown.
    """

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        self._measurements = measurements

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= WIDE
        goodput = any(MetricName.GOODPUT in m.metrics for m in self._measurements)
        table = Table(box=None, pad_edge=False, padding=(0, 2 if wide else 1, 0, 0))
        table.add_column("", overflow="fold")
        for head in _heads(wide, goodput):
            table.add_column(head, justify="right", overflow="fold")
        for measurement in self._measurements:
            table.add_row(*_row(measurement, wide, goodput))
        yield table


def bench_report(run: BenchRun) -> list[RenderableType]:
    """What was measured, the table, and the doubts. Print each with soft wrapping, tables apart."""
    spoken = " ".join(filter(None, (run.engine, run.engine_version)))
    head = Text(f"{run.model}{f' on {spoken}' if spoken else ''}; {run.workload.name}, {run.workload.amount}; ")
    head.append("half-widths of 95 % intervals")
    return [head, BenchTable(run.cells), *doubt_lines(run.cells)]


def doubt_lines(measurements: Sequence[Measurement]) -> list[Text]:
    """A line a doubt; doubts that say the same at several levels are told once, with all levels."""
    where: dict[tuple[str, str], list[str]] = {}
    for measurement in measurements:
        for doubt in measurement.doubts:
            where.setdefault((doubt.message, doubt.advice), []).append(say.label(measurement.cell))
    return [
        Text(f"doubt, {'; '.join(labels)}: {message}. {advice}", style="yellow")
        for (message, advice), labels in where.items()
    ]


def _heads(wide: bool, goodput: bool) -> list[str]:
    if wide:
        heads = ["per user (tok/s)", "in all (tok/s)", "TTFT (ms)\np50, p99", "TPOT (ms)\np50, p99"]
    else:  # two values below each other, as their headings
        heads = ["per user (tok/s)\nin all (tok/s)", "TTFT p50, p99 (ms)\nTPOT p50, p99 (ms)"]
    return [*heads, "tokens\na step", *(["goodput\n(req/s)"] if goodput else []), "requests"]


def _row(m: Measurement, wide: bool, goodput: bool) -> list[str | Text]:
    speeds = [say.speed(m.metrics.get(name)) for name in (MetricName.PER_USER_SPEED, MetricName.AGGREGATE_SPEED)]
    times = [
        say.milliseconds(m, MetricName.TTFT_P50, MetricName.TTFT_P99),
        say.milliseconds(m, MetricName.TPOT_P50, MetricName.TPOT_P99),
    ]
    requests = say.requests(m)
    if wide:
        head, cells = Text(say.label(m.cell)), [*speeds, *times]
    else:
        head = Text(f"{m.cell.level.label}\n").append(say.sampling(m.cell), "dim")
        cells = ["\n".join(speeds), "\n".join(times)]
        requests = requests.replace(", ", "\n")
    return [
        head,
        *cells,
        say.accept_length(m),
        *([say.speed(m.metrics.get(MetricName.GOODPUT))] if goodput else []),
        Text(requests, style="red" if say.failures(m) else ""),
    ]
