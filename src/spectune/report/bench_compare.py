"""Two load tests side by side, on a terminal and as JSON."""

from __future__ import annotations

from functools import cache

from pydantic import ConfigDict, TypeAdapter
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from spectune.domain.bench_run import Basis, Difference, RunComparison, Word
from spectune.domain.estimate import Estimate
from spectune.domain.metrics import MetricName
from spectune.report import bench_words, words
from spectune.report.pool import ratio_interval
from spectune.report.terminal import WIDE

_TITLES: dict[MetricName, tuple[str, float]] = {
    MetricName.PER_USER_SPEED: ("per user (tok/s)", 1),
    MetricName.AGGREGATE_SPEED: ("in all (tok/s)", 1),
    MetricName.TTFT: ("TTFT (ms)", 1000),
    MetricName.TTFT_P99: ("TTFT p99 (ms)", 1000),
    MetricName.LATENCY: ("latency (ms)", 1000),
    MetricName.GOODPUT: ("goodput (req/s)", 1),
}
_STYLES = {Word.FASTER: "green", Word.SLOWER: "red", Word.NO_DIFFERENCE_SHOWN: "", Word.NOT_COMPARABLE: "yellow"}


def render_comparison_json(found: RunComparison) -> str:
    """The comparison as JSON, indented. Bounds that are not known are the text "Infinity"."""
    return _adapter().dump_json(found, indent=2).decode() + "\n"


@cache
def _adapter() -> TypeAdapter[RunComparison | None]:
    # Pydantic takes no configuration for a dataclass by itself, but for a union with one.
    return TypeAdapter(RunComparison | None, config=ConfigDict(ser_json_inf_nan="strings"))


def comparison_report(found: RunComparison, first: str, second: str) -> list[RenderableType]:
    """The table and what to know about it. Print each with soft wrapping, tables apart.

    Args:
        first, second: names of the two runs.
    """
    lines: list[RenderableType] = [Text(f"{second} against {first}", style="bold")]
    lines += [Text(f"not comparable: {text}", style="yellow") for text in found.obstacles.values()]
    lines += [Text(f"overlooked: {text}", style="yellow") for text in found.overlooked.values()]
    lines += [Text(f"differs: {name}: {text}") for name, text in found.changes.items()]
    lines.append(_Comparison(found))
    lines += [Text(f"{level.level}: {level.note}", style="yellow") for level in found.levels if level.note]
    lines += [
        Text(f"doubts, {level.level}: {', '.join(level.doubts)}; the runs themselves tell more", style="yellow")
        for level in found.levels
        if level.doubts
    ]
    if found.tests:
        lines.append(Text(_explained(found), style="dim"))
    return lines


def _explained(found: RunComparison) -> str:
    percent = f"{100 * found.confidence:g} %"
    together = f"the {found.tests} words hold together" if found.tests > 1 else "the word holds"
    return (
        f"Changes with their {percent} intervals, each by itself; {together} at {percent} (Holm). Intervals allow for "
        f"{100 * found.run_sd:g} % (standard deviation) by which each run of a server differs by itself."
    )


class _Comparison:
    """A line a metric, below a line for its level."""

    def __init__(self, found: RunComparison) -> None:
        self._found = found

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= WIDE
        table = Table(box=None, pad_edge=False, padding=(0, 2 if wide else 1, 0, 0))
        table.add_column("", overflow="fold")
        table.add_column("first", justify="right")
        table.add_column("second", justify="right")
        table.add_column("change")
        if wide:
            table.add_column("from")
        table.add_column("")
        for level in self._found.levels:
            if level.differences:
                table.add_row(Text(f"{level.level}, {bench_words.temperature(level.sampling)}", style="bold"))
                for difference in level.differences:
                    table.add_row(*_row(difference, wide))
        yield table


def _row(found: Difference, wide: bool) -> list[RenderableType]:
    title, factor = _TITLES[found.metric]
    change = words.gain_spread(ratio_interval(found.ratio)) if found.ratio else words.NOTHING
    cells: list[RenderableType] = [f"  {title}", _value(found.before, factor), _value(found.after, factor), change]
    if wide:
        cells.append(_basis(found))
    return [*cells, Text(found.word.value, style=_STYLES[found.word])]


def _value(estimate: Estimate, factor: float) -> str:
    return words.number(factor * estimate.value)


def _basis(found: Difference) -> str:
    if found.ratio is None:
        return ""
    return f"{found.ratio.pairs} pairs" if found.basis is Basis.PAIRS else "estimates"
