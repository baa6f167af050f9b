"""The load generator: measures one cell on a running server, and asks it for greedy answers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import uvloop

from spectune.domain.deployment import Counters
from spectune.domain.errors import EngineFailure, FailureKind, InputError
from spectune.domain.finding import Answer
from spectune.domain.measurement import Measurement, Outcome, Phase
from spectune.domain.ports import Clock, Limits, Target
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Cell, LevelKind, Prompt, Sampling
from spectune.load import acceptance, doubts, summary
from spectune.load.body import PATH, chat_body
from spectune.load.closed_loop import ClosedLoop
from spectune.load.record import Recorded, make_record
from spectune.load.wire import Pool, RawExchange, Timeouts, encode_request

T = TypeVar("T")

_GREEDY = Sampling(temperature=0.0, seed=1)
_LAG_SAMPLE_S = 0.05
_PROGRESS_EVERY_S = 0.25
_SETTLE_S, _SETTLE_POLL_S = 2.0, 0.15


@dataclass(frozen=True, slots=True)
class _Run:
    """What the event loop brings home."""

    loop: ClosedLoop
    lag_s: tuple[float, float]
    cpu_share: float


class HttpLoad:
    """See domain.ports.LoadGenerator.

    Args:
        clock: for the time of day in measurements.
        load_average: 1-minute load average of this machine.
        cores: usable cores of this machine.
        timeouts: of each request.
    """

    def __init__(
        self, clock: Clock, load_average: Callable[[], float], cores: int, timeouts: Timeouts | None = None
    ) -> None:
        self._clock = clock
        self._load_average = load_average
        self._cores = cores
        self._timeouts = timeouts or Timeouts()

    def measure(
        self, target: Target, cell: Cell, prompts: Iterator[Prompt], limits: Limits, progress: Callable[[str], None]
    ) -> MeasuredCell:
        if cell.level.kind is not LevelKind.CONCURRENCY:
            raise InputError(f"cannot measure at {cell.level.label}: only concurrency levels are supported")
        started, load_before, before = self._clock.now(), self._load_average(), target.counters()
        run = _run(self._closed_loop(target, cell, prompts, limits, _Throttled(progress, self._clock.monotonic)))
        if run.loop.lost:
            detail = next((r.record.detail for r in reversed(run.loop.recorded) if r.record.detail), "")
            raise EngineFailure(
                FailureKind.DIED_MEASURING,
                f"the server stopped answering at {cell.label} ({detail})",
                "Read the end of its log.",
            )
        after = self._settled(target)
        recorded, window = run.loop.recorded, run.loop.window
        kept = summary.steady(recorded)
        metrics = summary.request_metrics(kept) | summary.window_metrics(recorded, window)
        in_flight = summary.mean_in_flight((r.record for r in recorded), window)
        facts = doubts.Facts(
            cell, kept, recorded, metrics, in_flight, before, after,
            run.lag_s, run.cpu_share, self._cores, load_before,
        )  # fmt: skip
        measurement = Measurement(
            cell=cell,
            started_unix=started,
            window_s=window.seconds,
            metrics=metrics,
            by_domain=summary.split(kept, summary.request_metrics),
            requests=dict(Counter(r.record.outcome for r in recorded)),
            in_flight=in_flight,
            acceptance=acceptance.from_counters(before, after) or acceptance.from_requests(r.record for r in kept),
            acceptance_by_domain=_acceptance_by_domain(kept),
            counters_before=before,
            counters_after=after,
            load_average=(load_before, self._load_average()),
            stopped=run.loop.stopped,
            doubts=doubts.doubts(facts),
        )
        return MeasuredCell(measurement, tuple(r.record for r in recorded))

    def ask(self, target: Target, prompts: Iterable[Prompt], concurrency: int) -> tuple[Answer, ...]:
        return _run(self._answers(target, list(prompts), concurrency))

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

    def _pool(self, target: Target, size: int) -> Pool:
        return Pool(target.url, size, self._timeouts, reuse=target.keep_alive)

    async def _closed_loop(
        self, target: Target, cell: Cell, prompts: Iterator[Prompt], limits: Limits, progress: _Throttled
    ) -> _Run:
        users = cell.level.users
        async with self._pool(target, users) as pool:
            send = _sender(pool, target, cell.sampling)
            load = ClosedLoop(users, limits, prompts, send, pool.cancel, lambda kept: progress(partial(_words, kept)))
            lags: list[float] = []
            sampler = asyncio.create_task(_sample_lag(lags))
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                await load.run()
            finally:
                sampler.cancel()
            share = (time.process_time() - cpu) / max(time.perf_counter() - wall, 1e-9)
        worst = max(lags, default=0.0)
        return _Run(load, (sum(lags) / len(lags) if lags else 0.0, worst), share)

    async def _answers(self, target: Target, prompts: list[Prompt], concurrency: int) -> tuple[Answer, ...]:
        turns = asyncio.Semaphore(concurrency)
        async with self._pool(target, concurrency) as pool:
            send = _sender(pool, target, _GREEDY)

            async def one(prompt: Prompt) -> Answer:
                async with turns:
                    exchange = await send(prompt, prompt.max_tokens)
                done = make_record(prompt, Phase.WARMUP, exchange.sent_ns, exchange)
                record = done.record
                error = "" if record.outcome is Outcome.OK else f"{record.outcome}: {record.detail}"
                return Answer(prompt.id, done.text, record.finish_reason, error)

            return tuple(await asyncio.gather(*map(one, prompts)))


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Runs to the end in an event loop of its own; Ctrl-C cancels the work, closes connections, and is raised again."""
    return uvloop.run(work)


def _sender(pool: Pool, target: Target, sampling: Sampling) -> Callable[[Prompt, int], Awaitable[RawExchange]]:
    def send(prompt: Prompt, max_tokens: int) -> Awaitable[RawExchange]:
        body = chat_body(target.model_id, prompt, sampling, max_tokens)
        return pool.exchange(encode_request(target.url, PATH, body, target.headers))

    return send


async def _sample_lag(lags: list[float]) -> None:
    """Notes how late the event loop wakes up, in seconds."""
    while True:
        due = time.perf_counter() + _LAG_SAMPLE_S
        await asyncio.sleep(_LAG_SAMPLE_S)
        lags.append(max(0.0, time.perf_counter() - due))


def _acceptance_by_domain(kept: list[Recorded]) -> dict[str, Any]:
    found = summary.split(kept, lambda group: acceptance.from_requests(r.record for r in group))
    return {domain: value for domain, value in found.items() if value is not None}


def _words(kept: list[Recorded]) -> str:
    speed = summary.per_user_speed(r.record for r in kept)
    if speed is None:
        return f"{len(kept)} requests"
    width = f" ±{100 * speed.half_width:.0f} %" if speed.half_width < 1 else ""
    return f"{len(kept)} requests, {speed.value:.1f} tok/s per user{width}"


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
