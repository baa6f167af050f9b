"""What the engine counts, and the figures that it refreshes only when it logs."""

from __future__ import annotations

import bisect
from collections import Counter
from dataclasses import dataclass, field

from spectune.sim.sglang.job import Job

LATENCY_BUCKETS = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
INTER_TOKEN_BUCKETS = (
    *(0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1),
    *(0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8),
)


class Histogram:
    """Observations in buckets, as Prometheus counts them."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Note a value, `times` over."""
        self._counts[bisect.bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """Observations so far."""
        return sum(self._counts)

    def cumulative(self) -> list[int]:
        """Observations up to each bound, and of all."""
        sums, running = [], 0
        for count in self._counts:
            running += count
            sums.append(running)
        return sums


@dataclass(slots=True)
class Gauges:
    """Figures as of the last log line of a batch."""

    running: int = 0
    queued: int = 0
    throughput: float = 0.0
    hit_rate: float = 0.0
    used_tokens: int = 0
    sum_lengths: int = 0
    accept_length: float = 0.0
    accept_rate: float = 0.0
    graph: bool = False


@dataclass(slots=True)
class Counters:
    """Since the start, except for `accept_*`, which a flush resets.

    Only finished requests make up requests, prompt, generated, verified and cached; `realtime` moves with the log.
    """

    requests: int = 0
    aborted: int = 0
    retracted: int = 0
    prompt: int = 0
    generated: int = 0
    verified: int = 0
    cached: int = 0
    realtime: Counter[str] = field(default_factory=Counter)
    passes: Counter[str] = field(default_factory=Counter)
    http_requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    http_responses: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    http_active: Counter[tuple[str, str]] = field(default_factory=Counter)
    accept_tokens: int = 0
    accept_verifies: int = 0
    first_token: Histogram = field(default_factory=lambda: Histogram(LATENCY_BUCKETS))
    inter_token: Histogram = field(default_factory=lambda: Histogram(INTER_TOKEN_BUCKETS))
    latency: Histogram = field(default_factory=lambda: Histogram((*LATENCY_BUCKETS, 600, 1200, 1800, 2400)))
    queue_time: Histogram = field(default_factory=lambda: Histogram((0.0, *LATENCY_BUCKETS)))
    gauges: Gauges = field(default_factory=Gauges)

    def finished(self, job: Job, now: float) -> None:
        """Count a request that has ended."""
        if job.wanted.internal:
            return
        tokens = len(job.pieces)
        self.requests += 1
        self.aborted += job.reason == "abort"
        self.prompt += len(job.wanted.tokens)
        self.generated += tokens
        self.verified += job.verified
        self.cached += job.cached
        self.latency.observe(now - job.received)
        if job.scheduled is not None:
            self.queue_time.observe(job.scheduled - job.received)
        if job.first is not None:
            self.first_token.observe(job.first - job.received)
            if tokens > 1:
                self.inter_token.observe((now - job.first) / (tokens - 1), tokens - 1)

    def average_accept_length(self) -> float | None:
        """Tokens of a verify step since the start or the last flush; None before any were counted."""
        return self.accept_tokens / self.accept_verifies if self.accept_verifies else None

    def flush(self) -> None:
        """What /flush_cache resets."""
        self.accept_tokens = self.accept_verifies = 0


@dataclass(slots=True)
class LogInterval:
    """Sums between two decode log lines."""

    started: float
    iterations: int = 0
    tokens: int = 0
    verified: int = 0
    proposed: int = 0
    accepted: int = 0

    def line(self, now: float, running: int, queued: int, memory: str, graph: bool, gauges: Gauges) -> str:
        """The decode log line, which also refreshes the gauges it shows."""
        gauges.running, gauges.queued, gauges.graph = running, queued, graph
        gauges.throughput = self.tokens / (now - self.started) if now > self.started else 0.0
        spec = ""
        if self.verified:
            gauges.accept_length = 1.0 + self.accepted / self.verified
            gauges.accept_rate = self.accepted / self.proposed if self.proposed else 0.0
            spec = f"accept len: {gauges.accept_length:.2f}, accept rate: {gauges.accept_rate:.2f}, "
        return (
            f"Decode batch, #running-req: {running}, {memory}, {spec}cuda graph: {graph}, "
            f"gen throughput (token/s): {gauges.throughput:.2f}, #queue-req: {queued}"
        )


def labels(**values: object) -> str:
    """Prometheus labels, sorted by name."""
    return "{" + ",".join(f'{name}="{values[name]}"' for name in sorted(values)) + "}"
