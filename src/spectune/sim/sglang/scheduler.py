"""The scheduler: continuous batching on a clock of absolute deadlines, so that late wake-ups do not add up."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from spectune.sim.model import Speeds
from spectune.sim.sglang import answers
from spectune.sim.sglang.capacity import Fit
from spectune.sim.sglang.counters import Counters, LogInterval
from spectune.sim.sglang.depths import Depths
from spectune.sim.sglang.environment import Disturbance, Environment
from spectune.sim.sglang.job import Job, Wanted
from spectune.sim.sglang.log import Log
from spectune.sim.sglang.prefix_cache import PrefixCache

SHORTEST_SLEEP_S = 0.0005
"""The event loop's timers are no finer; shorter waits are made up for by the next one."""
LONGEST_LAG_S = 0.25
"""A lag beyond this (a machine that is too slow, or slept) is not made up for but counted as lost."""


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """Flags that the scheduler obeys: decode steps between log lines, tokens of a prefill pass, prefix cache or not."""

    log_interval: int = 40
    chunk: int = 8192
    prefix_cache: bool = True


class Scheduler:
    """Runs requests: prefill first, then decode steps of all of them together.

    Args:
        die: called when a fault kills the engine, with the reason; does not return.
        clock, sleep: real ones in a server, simulated ones in tests.

    Attributes:
        worst_lag_s: the latest that a step ended after its time.
        lost_s: time by which all later steps are late, because the machine did not keep up; 0 where the pace is true.
    """

    def __init__(
        self,
        environment: Environment,
        depths: Depths,
        fit: Fit,
        log: Log,
        options: SchedulerOptions,
        die: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.counters = Counters()
        self.running: list[Job] = []
        self.waiting: deque[Job] = deque()
        self.worst_lag_s = self.lost_s = 0.0
        self.now, self._sleep = clock, sleep
        self._environment, self._faults = environment, environment.faults
        self.depths, self._fit, self._log, self._options, self._die = depths, fit, log, options, die
        self._speeds = Speeds(environment.profile)
        self._rng = random.Random(environment.seed)
        self._noise = Disturbance(environment, random.Random(environment.seed + 1))
        self._cache = PrefixCache(fit.kv_tokens)
        self._arrived = asyncio.Event()
        self._seen = 0
        self._started = self._due = clock()
        self._interval = LogInterval(self._started)
        self._last_prefill = self._started
        self.stuck = False

    def submit(self, wanted: Wanted) -> Job:
        """Queue a request."""
        job = Job(wanted, self.now())
        if not wanted.internal:
            self._seen += 1
            if self._seen == self._faults.get("die-at-request"):
                self._die(f"RuntimeError: simulated death at request {self._seen}")
            self.stuck |= "hang-after-health" in self._faults
            self.stuck |= self._seen >= (self._faults.get("hang-at-request") or float("inf"))
        self.waiting.append(job)
        self._arrived.set()
        return job

    def abort(self, job: Job) -> None:
        """End a request whose client has gone, or that is to be aborted."""
        if job.reason is None:
            job.end("abort")

    def jobs(self) -> list[Job]:
        """All requests under way, running ones first."""
        return [*self.running, *self.waiting]

    @property
    def used_tokens(self) -> int:
        """KV tokens of running requests."""
        return sum(job.held for job in self.running)

    def flush(self) -> bool:
        """Empty the prefix cache and reset the acceptance averages; False, and no change, while there are requests."""
        if self.running or self.waiting:
            return False
        self._cache.clear()
        self.counters.flush()
        return True

    async def run(self) -> None:
        """Schedule for ever."""
        while True:
            self._drop_ended()
            if self.stuck or not (self.running or self.waiting):
                self._arrived.clear()
                await self._arrived.wait()
                self._due = max(self._due, self.now())
                continue
            if admitted := self._admit():
                await self._prefill(admitted)
            if self.running:
                await self._decode()

    async def _wait(self, seconds: float) -> None:
        """Until `seconds` of simulated time after the end of what came before."""
        now = self.now()
        if self._due < now - LONGEST_LAG_S:
            self.lost_s += now - LONGEST_LAG_S - self._due
            self._due = now - LONGEST_LAG_S
        self._due += seconds / self._environment.speed
        delay = self._due - now
        await self._sleep(delay if delay > SHORTEST_SLEEP_S else 0)
        self.worst_lag_s = max(self.worst_lag_s, self.now() - self._due)

    def _drop_ended(self) -> None:
        now = self.now()
        for job in [job for job in self.jobs() if job.reason is not None]:
            job.finished = now
            self.counters.finished(job, now)
        self.running = [job for job in self.running if job.reason is None]
        self.waiting = deque(job for job in self.waiting if job.reason is None)

    def _admit(self) -> list[Job]:
        admitted: list[Job] = []
        tokens, free = 0, self._fit.kv_tokens - self.used_tokens
        while self.waiting and len(self.running) + len(admitted) < self._fit.max_running:
            job = self.waiting[0]
            new = job.held - self._cached(job)
            fits = free >= job.held + self.depths.draft.verified
            if not fits and (self.running or admitted):
                break
            if admitted and tokens + new > self._options.chunk:
                break
            tokens, free = tokens + new, free - job.held
            admitted.append(self.waiting.popleft())
        return admitted

    def _cached(self, job: Job) -> int:
        return self._cache.match(job.wanted.tokens) if self._options.prefix_cache else 0

    async def _prefill(self, admitted: list[Job]) -> None:
        new = cached = 0
        for job in admitted:
            hit = self._cached(job)
            if job.scheduled is None:
                job.cached, job.scheduled = hit, self.now()
            new, cached = new + job.held - hit, cached + hit
            self._cache.insert(job.wanted.tokens)
        self.counters.realtime.update(prefill_compute=new, prefill_cache=cached)
        self.counters.passes["prefill_none"] += 1
        gauges, now = self.counters.gauges, self.now()
        gauges.hit_rate = cached / (new + cached) if new + cached else 0.0
        since, self._last_prefill = now - self._last_prefill, now
        self._log.scheduler(
            f"Prefill batch, #new-seq: {len(admitted)}, #new-token: {new}, #cached-token: {cached}, "
            f"{self._usage()}, #running-req: {len(self.running)}, #queue-req: {len(self.waiting)}, "
            f"#pending-token: {sum(job.held for job in self.waiting)}, cuda graph: {not self._fit.hybrid}, "
            f"input throughput (token/s): {new / since if since > 0 else 0.0:.2f}"
        )
        await self._wait(self._speeds.prefill_seconds(new) * self._noise.factor(self.now() - self._started))
        now = self.now()
        for job in admitted:
            if job.reason is None and job.room():
                job.first = job.first if job.first is not None else now
                self._give(job, 1, len(self.running) + len(admitted))
        self.running += [job for job in admitted if job.reason is None]
        # Those that ended with their first token are counted where all others are.
        self.waiting.extend(job for job in admitted if job.reason is not None)
        self._drop_ended()

    async def _decode(self) -> None:
        batch, draft = len(self.running), self.depths.choose(len(self.running))
        graph = batch <= self._fit.graph_max
        step = self._speeds.step_seconds(batch, draft, self.used_tokens, graph)
        await self._wait(step * self._noise.factor(self.now() - self._started))
        interval, emitted, batch_accepted = self._interval, 0, 0
        proposed = self.depths.asked.verified - 1  # as the engine counts, also while it adapts the depth
        for job in self.running:
            if job.reason is not None:
                continue
            yielded = 1 + self._speeds.sample_accepted(self._rng, self.depths.chances(job, draft))
            before = len(job.pieces)
            self._give(job, yielded, batch)
            got = len(job.pieces) - before
            emitted += got
            if draft.depth > 0 and got:
                job.count(proposed, got)
                batch_accepted += got - 1
                interval.verified += 1
                interval.proposed += proposed
                interval.accepted += got - 1
        interval.tokens += emitted
        interval.iterations += 1
        self.counters.passes["decode_cuda_graph" if graph else "decode_none"] += 1
        self.depths.observe(batch, batch_accepted)
        self._log_decode(batch, graph)
        self._drop_ended()
        self._retract()

    def _give(self, job: Job, count: int, batch: int) -> None:
        start = len(job.pieces)
        count = min(count, job.room())
        broken = "garbage-answers" in self._faults or ("garbage-when-concurrent" in self._faults and batch > 1)
        piece = answers.garbage if broken and not job.wanted.internal else job.wanted.answer.piece
        job.take([piece(start + offset) for offset in range(count)])

    def _retract(self) -> None:
        """Send the newest requests back to the queue while the KV pool is full."""
        before = len(self.running)
        while len(self.running) > 1 and self.used_tokens > self._fit.kv_tokens:
            job = self.running.pop()
            job.retracted += 1
            self.waiting.appendleft(job)
        if gone := before - len(self.running):
            self.counters.retracted += gone
            self._log.scheduler(
                f"KV cache pool is full. Retract requests. #retracted_reqs: {gone}, "
                f"#new_tokens_gained: {sum(job.held for job in list(self.waiting)[:gone])}, "
                "#new_token_ratio: 0.7000 -> 1.0000"
            )

    def _usage(self) -> str:
        share = self.used_tokens / self._fit.kv_tokens
        if not self._fit.hybrid:
            return f"token usage: {share:.2f}"
        return f"full token usage: {share:.2f}, mamba usage: {self._mamba() / max(1, self._fit.mamba_slots):.2f}"

    def _mamba(self) -> int:
        return len(self.running) * self._fit.mamba_ratio

    def _log_decode(self, batch: int, graph: bool) -> None:
        if self._interval.iterations < self._options.log_interval:
            return
        counters, interval, now, used = self.counters, self._interval, self.now(), self.used_tokens
        counters.gauges.used_tokens = counters.gauges.sum_lengths = used
        counters.realtime["decode"] += interval.tokens
        counters.accept_tokens += interval.verified + interval.accepted
        counters.accept_verifies += interval.verified
        share = used / self._fit.kv_tokens
        memory = f"#token: {used}, token usage: {share:.2f}"
        if self._fit.hybrid:
            mamba = self._mamba()
            memory = (
                f"#full token: {used}, full token usage: {share:.2f}, mamba num: {mamba}, "
                f"mamba usage: {mamba / max(1, self._fit.mamba_slots):.2f}"
            )
        self._log.scheduler(interval.line(now, batch, len(self.waiting), memory, graph, counters.gauges))
        self._interval = LogInterval(now)
