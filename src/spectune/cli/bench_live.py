"""What a load test looks like while it runs: a growing table on a terminal, a line a level elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from spectune.domain.measurement import Measurement
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Cell
from spectune.report import bench_words as say
from spectune.report.bench_table import BenchTable


class LiveBench:
    """Hears how a load test goes and shows it.

    Args:
        console: where to show it.
        cells: how many there will be.
    """

    def __init__(self, console: Console, cells: int) -> None:
        self._console = console
        self._cells = cells
        self._done: list[Measurement] = []
        self._flattering: list[Measurement] = []
        self._spinner = Spinner("dots", Text("starting"))
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(self, console=self._console, transient=True, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
            if kind is not None and self._shown:  # no final table will come
                self._console.print(BenchTable(self._shown))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._shown:
            yield BenchTable(self._shown)
        yield self._spinner

    def progress(self, cell: Cell, news: str) -> None:
        if self._live is not None:
            place = f"{len(self._shown) + 1} of {self._cells}"
            self._spinner.update(text=Text(f"{place}  {say.label(cell)}: {news or 'starting'}"))

    def measured(self, cell: MeasuredCell) -> None:
        self._add(cell, self._done, "")

    def flattered(self, cell: MeasuredCell) -> None:
        self._add(cell, self._flattering, "flattering test: ")

    @property
    def _shown(self) -> Sequence[Measurement]:
        return [*self._flattering, *self._done]

    def _add(self, cell: MeasuredCell, where: list[Measurement], what: str) -> None:
        where.append(cell.measurement)
        if self._live is None:
            self._console.print(what + say.line(cell.measurement), markup=False, highlight=False, soft_wrap=True)
