"""From records to a measurement: the metrics of domain.metrics, each by its formula, with its interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spectune.domain.estimate import Estimate
from spectune.domain.measurement import Outcome, Phase, RequestRecord, Slo
from spectune.domain.metrics import MetricName
from spectune.load import intervals
from spectune.load.record import Recorded
from spectune.load.window import Window

T = TypeVar("T")

_BLOCKS = (4, 20)
_BLOCK_S = 1.0
_AT_ONCE = 4096
"""Requests whose chunks are counted in one go; of all at once there may be a hundred million."""


def steady(recorded: Iterable[Recorded]) -> list[Recorded]:
    """Served requests that count, in the order in which they were sent."""
    kept = [r for r in recorded if r.record.phase is Phase.STEADY and r.record.outcome is Outcome.OK]
    return sorted(kept, key=lambda r: r.record.sent_ns)


def per_user_speed(records: Iterable[RequestRecord]) -> Estimate | None:
    """sum(output tokens - 1) / sum(decode time), with a ratio estimator's interval over requests."""
    timed = [(r.output_tokens - 1, seconds) for r in records if r.output_tokens and (seconds := r.decode_s)]
    return intervals.ratio([tokens for tokens, _ in timed], [seconds for _, seconds in timed])


def request_metrics(kept: Sequence[Recorded]) -> dict[MetricName, Estimate]:
    """Metrics that have a meaning for any set of requests.

    Times count from when a request was due, which in an open loop may be earlier than when it was sent: see
    RequestRecord.ttft_s.
    """
    records = [r.record for r in kept]
    ttfts = [r.ttft_s for r in records if r.ttft_s is not None]
    tpots = [1 / r.speed_tok_s for r in records if r.speed_tok_s]
    estimates = {
        MetricName.TTFT: intervals.mean(ttfts),
        MetricName.TTFT_P50: intervals.quantile(ttfts, 0.5),
        MetricName.TTFT_P99: intervals.quantile(ttfts, 0.99),
        MetricName.TPOT: intervals.mean(tpots),
        MetricName.TPOT_P50: intervals.quantile(tpots, 0.5),
        MetricName.TPOT_P99: intervals.quantile(tpots, 0.99),
        MetricName.LATENCY: intervals.mean([r.latency_s for r in records if r.latency_s is not None]),
        MetricName.PER_USER_SPEED: per_user_speed(records),
        MetricName.CHUNK_GAP: intervals.mean(_median_gaps(kept)),
    }
    return _present(estimates)


def window_metrics(recorded: Sequence[Recorded], window: Window, slo: Slo | None = None) -> dict[MetricName, Estimate]:
    """Metrics of the whole load in the window: aggregate speed and finished requests, from blocks of equal length.

    Goodput is there if there is a service level to meet: requests due in the window that met it.
    """
    if window.seconds <= 0:
        return {}
    blocks = int(np.clip(window.seconds / _BLOCK_S, *_BLOCKS))
    edges = np.linspace(window.opened_ns, window.closed_ns, blocks + 1)
    length = window.seconds / blocks
    tokens = _tokens_in(recorded, edges)
    ends = [r.record.end_ns for r in recorded if r.record.outcome is Outcome.OK]
    finished, _ = np.histogram(ends, edges)
    estimates = {
        MetricName.AGGREGATE_SPEED: intervals.mean(tokens / length),
        MetricName.REQUEST_RATE: intervals.mean(finished / length),
    }
    if slo:
        good = [r.record.due_ns for r in recorded if r.record.phase is Phase.STEADY and slo.is_met(r.record)]
        estimates[MetricName.GOODPUT] = intervals.mean(np.histogram(good, edges)[0] / length)
    return _present(estimates)


def turn_metrics(
    turns: Sequence[tuple[Sequence[Recorded], Window]], slo: Slo | None = None
) -> dict[MetricName, Estimate]:
    """The same over the turns of a server that takes turns with another; every turn is one block."""
    counted = [(recorded, window) for recorded, window in turns if window.seconds > 0]
    tokens, finished, good = [], [], []
    for recorded, window in counted:
        edges = np.array([window.opened_ns, window.closed_ns], dtype=np.float64)
        tokens.append(float(_tokens_in(recorded, edges)[0]) / window.seconds)
        served = [r.record for r in recorded if r.record.outcome is Outcome.OK]
        finished.append(sum(window.opened_ns <= r.end_ns <= window.closed_ns for r in served) / window.seconds)
        if slo:
            good.append(sum(r.phase is Phase.STEADY and slo.is_met(r) for r in served) / window.seconds)
    return _present(
        {
            MetricName.AGGREGATE_SPEED: intervals.mean(tokens),
            MetricName.REQUEST_RATE: intervals.mean(finished),
            MetricName.GOODPUT: intervals.mean(good) if slo else None,
        }
    )


def weighted(values: Sequence[float], windows: Sequence[Window]) -> float:
    """Mean of one value a window, weighted by the windows' lengths."""
    total = sum(window.seconds for window in windows)
    return sum(v * w.seconds for v, w in zip(values, windows, strict=True)) / total if total > 0 else 0.0


def _present(estimates: Mapping[MetricName, Estimate | None]) -> dict[MetricName, Estimate]:
    """Those that are known. No time and no speed is below 0, though an interval of two values may reach there."""
    return {
        name: replace(estimate, low=max(0.0, estimate.low))
        for name, estimate in estimates.items()
        if estimate is not None
    }


def _tokens_in(recorded: Sequence[Recorded], edges: intervals.Floats) -> intervals.Floats:
    """Tokens by block. Chunks may hold several tokens each: those of a request share its tokens evenly."""
    tokens: intervals.Floats = np.zeros(len(edges) - 1)
    told = [r for r in recorded if r.record.output_tokens and len(r.stamps)]
    for first in range(0, len(told), _AT_ONCE):
        some = told[first : first + _AT_ONCE]
        chunks = [len(r.stamps) for r in some]
        share = [(r.record.output_tokens or 0) / count for r, count in zip(some, chunks, strict=True)]
        stamps = _stamps(some)
        tokens += np.histogram(stamps, edges, weights=np.repeat(share, chunks))[0]
    return tokens


def _stamps(recorded: Sequence[Recorded]) -> NDArray[np.int64]:
    """Those of all one after the other, without an object of numpy for each."""
    return np.frombuffer(b"".join(r.stamps for r in recorded), dtype=np.int64)


def _median_gaps(kept: Sequence[Recorded]) -> list[float]:
    """Median time between two chunks of each request that has two, in seconds, in their order. Answers of a length go
    together, since a call of numpy costs more than the work in it."""
    by_length: dict[int, list[int]] = {}
    for place, one in enumerate(kept):
        by_length.setdefault(len(one.stamps), []).append(place)
    gaps: intervals.Floats = np.full(len(kept), np.nan)
    for length, places in by_length.items():
        if length > 1:
            stamps = _stamps([kept[place] for place in places]).reshape(len(places), length)
            gaps[places] = np.median(np.diff(stamps, axis=1), axis=1) / 1e9
    return [float(gap) for gap in gaps[~np.isnan(gaps)]]


def mean_in_flight(records: Iterable[RequestRecord], window: Window) -> float:
    """Mean number of requests in flight in the window; a request is in flight from sent to end."""
    return mean_going_on(((r.sent_ns, r.end_ns) for r in records if r.sent_ns), window)


def mean_going_on(spans: Iterable[tuple[int, int]], window: Window) -> float:
    """Mean number of spans (from, to) that cover a moment of the window."""
    if window.seconds <= 0:
        return 0.0
    overlap = sum(max(0, min(end, window.closed_ns) - max(start, window.opened_ns)) for start, end in spans)
    return overlap / 1e9 / window.seconds


def thirds(window: Window) -> tuple[Window, Window, Window]:
    """A window cut into three of the same length."""
    a, b = (window.opened_ns + (window.closed_ns - window.opened_ns) * n // 3 for n in (1, 2))
    return Window(window.opened_ns, a), Window(a, b), Window(b, window.closed_ns)


def split(kept: Iterable[Recorded], make: Callable[[list[Recorded]], T]) -> Mapping[str, T]:
    """One result a domain, domains in alphabetical order."""
    groups: dict[str, list[Recorded]] = {}
    for item in kept:
        groups.setdefault(item.record.domain, []).append(item)
    return {domain: make(groups[domain]) for domain in sorted(groups)}
