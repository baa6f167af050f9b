"""A load test of a server that somebody else started."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from spectune import __version__
from spectune.assemble.clock import SystemClock
from spectune.assemble.endpoints import Endpoint
from spectune.assemble.measuring import Origin, here
from spectune.domain.bench_run import BenchRun
from spectune.domain.measurement import Slo
from spectune.domain.ports import Limits, PromptSource
from spectune.domain.redaction import redact_text
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Cell, Level, Sampling
from spectune.load.body import Api
from spectune.workload import WithNonce


@dataclass(frozen=True, slots=True)
class Bench:
    """What to measure on an endpoint, and how to ask.

    Attributes:
        levels: load levels, each measured at every temperature.
        temperatures: None is the server's own.
        seconds, precision: see Limits.
        ignore_eos: answers of fixed length.
        slo: what goodput counts.
        api: "chat" or "completions".
    """

    levels: tuple[Level, ...]
    temperatures: tuple[float | None, ...]
    seconds: float
    precision: float
    ignore_eos: bool = False
    slo: Slo | None = None
    api: str = Api.CHAT.value
    seed: int = 1

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(
            Cell(level, Sampling(temperature, seed=self.seed, ignore_eos=self.ignore_eos))
            for level in self.levels
            for temperature in self.temperatures
        )

    @property
    def flattering_cells(self) -> tuple[Cell, ...]:
        """The same levels, sampled in the way that flatters speculation."""
        return tuple(Cell(level, Sampling(0.0, seed=self.seed, ignore_eos=True)) for level in self.levels)


@dataclass(frozen=True, slots=True)
class Listener:
    """Who hears how a load test goes.

    Attributes:
        progress: a cell and news of it, a few times a second.
        measured: a cell of what was asked is done.
        flattered: a flattering cell is done.
    """

    progress: Callable[[Cell, str], None]
    measured: Callable[[MeasuredCell], None]
    flattered: Callable[[MeasuredCell], None] = field(default=lambda cell: None)


def new_run(endpoint: Endpoint, what: Bench, prompts: PromptSource, origin: Origin | None = None) -> BenchRun:
    """The run that is about to be measured, without cells; the server is asked what it is.

    Args:
        origin: where the load comes from; this machine by default.
    """
    origin = origin or here()
    notes = (*prompts.info.notes, origin.words) if origin.words else prompts.info.notes
    seen = endpoint.seen()
    return BenchRun(
        spectune=__version__,
        started_unix=SystemClock().now(),
        url=redact_text(origin.url or endpoint.url),
        model=endpoint.model_id,
        engine=endpoint.engine.name if endpoint.engine else "",
        engine_version=seen.version or "",
        method=seen.method,
        depth=seen.depth,
        client=origin.machine,
        workload=replace(prompts.info, notes=notes),
        api=what.api,
        seconds=what.seconds,
        precision=what.precision,
        slo=what.slo,
    )


def bench(
    endpoint: Endpoint,
    what: Bench,
    prompts: PromptSource,
    listener: Listener,
    flattering: PromptSource | None = None,
    origin: Origin | None = None,
) -> None:
    """Measures every cell, with prompts that the server has never seen, and tells the listener of each.

    Args:
        flattering: prompts that flatter; each level is then measured with them too, before the cells of the workload.
            They are repeated word for word, as those who publish such figures repeat them.
        origin: where the load comes from; this machine by default.

    Raises:
        EngineFailure: the server stopped answering; what was measured before has been told.
        InputError: a level and the prompts make no schedule.
    """
    load = (origin or here()).generator(replace(endpoint.options(), api=Api(what.api), slo=what.slo))
    fresh = WithNonce(prompts, os.urandom(4).hex())
    limits = Limits(what.seconds, what.precision)

    def measure(cell: Cell, source: PromptSource, lane: int, lanes: int) -> MeasuredCell:
        def progress(news: str) -> None:
            listener.progress(cell, news)

        progress("")
        return load.measure(endpoint.target(), cell, source.deal(lane, lanes), limits, progress)

    cells = what.cells
    for number, (level, flattered) in enumerate(zip(what.levels, what.flattering_cells, strict=True), start=1):
        if flattering is not None:
            listener.flattered(measure(flattered, flattering, number, len(what.levels) + 1))
        for lane, cell in enumerate(cells, start=1):
            if cell.level == level:
                listener.measured(measure(cell, fresh, lane, len(cells) + 1))
