"""The load generator: measures one cell on a running server, and asks it for greedy answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from spectune.domain.deployment import Counters
from spectune.domain.errors import EngineFailure, FailureKind, InputError
from spectune.domain.estimate import Estimate
from spectune.domain.finding import Answer
from spectune.domain.measurement import Measurement, Outcome, Phase, Slo
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Clock, Limits, Target
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Cell, LevelKind, Prompt, Sampling
from spectune.load import acceptance, doubts, summary
from spectune.load.body import Sender, Server
from spectune.load.exchange import Timeouts
from spectune.load.facts import Facts
from spectune.load.options import Options
from spectune.load.pools import pool_for
from spectune.load.quiet import rare_collections, until_done
from spectune.load.record import Recorded, make_record
from spectune.load.running import Run, Task, load
from spectune.load.speeds import Precision, Speeds
from spectune.load.turns import take_turns
from spectune.load.window import Window

_GREEDY = Sampling(temperature=0.0, seed=1)
_PROGRESS_EVERY_S = 0.25
_SETTLE_S, _SETTLE_POLL_S = 2.0, 0.15


class HttpLoad:
    """See domain.ports.LoadGenerator.

    Args:
        clock: for the time of day in measurements.
        load_average: 1-minute load average of the machine that the load comes from.
        cores: usable cores of that machine.
        timeouts: of each request, in place of those of the options.
        options: how to ask.
        load: loads a server; from this machine unless another is given. Answers are always asked for from here.
        way_s: seconds that the way to the server adds to a round trip, as far as it is known.
    """

    def __init__(
        self,
        clock: Clock,
        load_average: Callable[[], float],
        cores: int,
        timeouts: Timeouts | None = None,
        options: Options | None = None,
        *,
        load: Callable[[Task], Run] = load,
        way_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._clock = clock
        self._load_average = load_average
        self._cores = cores
        options = options or Options()
        self._options = replace(options, timeouts=timeouts) if timeouts else options
        self._load = load
        self._way_s = way_s

    def measure(
        self, target: Target, cell: Cell, prompts: Iterator[Prompt], limits: Limits, progress: Callable[[str], None]
    ) -> MeasuredCell:
        """See the port. Latencies of an open loop count from when a request was due, not from when it was sent: a
        client that waits for a slow server would else leave out the waiting that matters (coordinated omission).

        Raises:
            EngineFailure: DIED_MEASURING, when the server stops answering altogether.
            InputError: the level or its prompts make no schedule, or a prompt cannot be sent.
            HostError: one of several processes of the load generator died.
        """
        started, load_before, before = self._clock.now(), self._load_average(), target.counters()
        run = self._load(self._task(target, cell, prompts, limits, self._teller(progress)))
        _need_alive([run], cell)
        after = self._settled(target)
        return self._measurement(_Taken(cell, started, load_before, before, after, (run,), run.stopped))

    def duel(
        self,
        targets: tuple[Target, Target],
        cell: Cell,
        prompts: Iterator[Prompt],
        limits: Limits,
        progress: Callable[[str], None],
    ) -> tuple[MeasuredCell, MeasuredCell]:
        """See the port. Closed loops only.

        Raises:
            EngineFailure: DIED_MEASURING, when one of the servers stops answering altogether.
            InputError: an open loop, or a prompt cannot be sent.
        """
        if cell.level.kind is LevelKind.RATE:
            raise InputError("servers can't take turns at a rate: requests arrive whether or not it is their turn")
        started, load_before = self._clock.now(), self._load_average()
        before = [target.counters() for target in targets]
        heard = self._teller(progress)
        first, second = (self._task(target, cell, prompts, limits, heard) for target in targets)
        with rare_collections():
            turns = take_turns(first, second, limits, self._load, heard, self._clock.monotonic)
        runs = (turns.first, turns.second)
        for its in runs:
            _need_alive(its, cell)
        after = [self._settled(target) for target in targets]
        one, other = (
            self._measurement(_Taken(cell, started, load_before, b, a, its, turns.stopped))
            for b, a, its in zip(before, after, runs, strict=True)
        )
        return one, other

    def _task(
        self, target: Target, cell: Cell, prompts: Iterator[Prompt], limits: Limits, heard: Callable[[Speeds], None]
    ) -> Task:
        listener = Precision(limits, heard)
        return Task(_server(target), cell, prompts, limits.seconds, listener, self._options, self._cores)

    def _teller(self, progress: Callable[[str], None]) -> Callable[[Speeds], None]:
        tell = _Throttled(progress, self._clock.monotonic)
        return lambda speeds: tell(partial(_words, speeds))

    def _measurement(self, taken: _Taken) -> MeasuredCell:
        runs, cell, slo = taken.runs, taken.cell, self._options.slo
        recorded = [r for run in runs for r in run.recorded]
        windows = [run.window for run in runs]
        kept = summary.steady(recorded)
        whole = summary.window_metrics(recorded, windows[0], slo) if len(runs) == 1 else _of_turns(runs, slo)
        of_requests = summary.request_metrics(kept)
        metrics = of_requests | whole
        in_flight = summary.weighted(
            [summary.mean_in_flight((r.record for r in run.recorded), run.window) for run in runs], windows
        )
        thinking = summary.weighted([summary.mean_going_on(run.thought, run.window) for run in runs], windows)
        lags = [run.watched.lag_s for run in runs]
        facts = Facts(
            cell, kept, recorded, metrics, in_flight, taken.before, taken.after,
            (sum(mean for mean, _ in lags) / len(lags), max(worst for _, worst in lags)),
            max(run.watched.cpu_share for run in runs), self._cores, taken.load_average,
            Window(windows[0].opened_ns, windows[-1].closed_ns), thinking,
            any(run.overflowed for run in runs), sum(run.cut_off for run in runs),
            self._way_s(),
        )  # fmt: skip
        measurement = Measurement(
            cell=cell,
            started_unix=taken.started,
            window_s=(windows[-1].closed_ns - windows[0].opened_ns) / 1e9,
            metrics=metrics,
            by_domain=summary.split(
                kept, lambda group: of_requests if len(group) == len(kept) else summary.request_metrics(group)
            ),
            requests=dict(Counter(r.record.outcome for r in recorded)),
            in_flight=in_flight,
            acceptance=acceptance.from_counters(taken.before, taken.after)
            or acceptance.from_requests(r.record for r in kept),
            acceptance_by_domain=_acceptance_by_domain(kept),
            counters_before=taken.before,
            counters_after=taken.after,
            load_average=(taken.load_average, self._load_average()),
            stopped=taken.stopped,
            doubts=doubts.doubts(facts),
        )
        return MeasuredCell(measurement, tuple(r.record for r in recorded))

    def ask(self, target: Target, prompts: Iterable[Prompt], concurrency: int) -> tuple[Answer, ...]:
        return until_done(self._answers(target, list(prompts), concurrency))

    def _settled(self, target: Target) -> Counters | None:
        """The counters once the server has noticed that fillers were cancelled; else their tokens would be counted in
        the next cell."""
        deadline = self._clock.monotonic() + _SETTLE_S
        last = target.counters()
        while last is not None and self._clock.monotonic() < deadline:
            self._clock.sleep(_SETTLE_POLL_S)
            now = target.counters()
            if now == last:
                break
            last = now
        return last

    async def _answers(self, target: Target, prompts: list[Prompt], concurrency: int) -> tuple[Answer, ...]:
        turns = asyncio.Semaphore(concurrency)
        async with pool_for(_server(target), concurrency, self._options) as pool:
            sender = Sender(pool, _server(target), _GREEDY, self._options.api)

            async def one(prompt: Prompt) -> Answer:
                async with turns:
                    exchange = await sender.exchange(sender.encode(prompt, prompt.max_tokens))
                done = make_record(prompt, Phase.WARMUP, exchange.sent_ns, exchange)
                record = done.record
                error = "" if record.outcome is Outcome.OK else f"{record.outcome}: {record.detail}"
                return Answer(prompt.id, done.text, record.finish_reason, error)

            return tuple(await asyncio.gather(*map(one, prompts)))


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a measurement is made of; several runs where a server took turns with another."""

    cell: Cell
    started: float
    load_average: float
    before: Counters | None
    after: Counters | None
    runs: Sequence[Run]
    stopped: str


def _server(target: Target) -> Server:
    return Server(target.url, target.model_id, dict(target.headers), target.keep_alive)


def _of_turns(runs: Sequence[Run], slo: Slo | None) -> dict[MetricName, Estimate]:
    return summary.turn_metrics([(run.recorded, run.window) for run in runs], slo)


def _need_alive(runs: Sequence[Run], cell: Cell) -> None:
    """Raises EngineFailure where the server stopped answering."""
    lost = next((run for run in runs if run.lost), None)
    if lost is None:
        return
    detail = next((r.record.detail for r in reversed(lost.recorded) if r.record.detail), "")
    raise EngineFailure(
        FailureKind.DIED_MEASURING,
        f"the server stopped answering at {cell.label} ({detail})",
        "Read the end of its log.",
    )


def _acceptance_by_domain(kept: list[Recorded]) -> dict[str, Any]:
    found = summary.split(kept, lambda group: acceptance.from_requests(r.record for r in group))
    return {domain: value for domain, value in found.items() if value is not None}


def _words(speeds: Speeds) -> str:
    speed = speeds.estimate()
    if speed is None:
        return f"{speeds.requests} requests"
    width = f" ±{100 * speed.half_width:.0f} %" if speed.half_width < 1 else ""
    return f"{speeds.requests} requests, {speed.value:.1f} tok/s per user{width}"


class _Throttled:
    """Passes on at most a few texts a second; those in between are not even made."""

    def __init__(self, tell: Callable[[str], None], monotonic: Callable[[], float]) -> None:
        self._tell = tell
        self._monotonic = monotonic
        self._next = float("-inf")

    def __call__(self, text: Callable[[], str]) -> None:
        now = self._monotonic()
        if now >= self._next:
            self._next = now + _PROGRESS_EVERY_S
            self._tell(text())
