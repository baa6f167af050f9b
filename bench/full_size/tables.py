"""The evidence as Markdown tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import NormalDist, fmean, median

from bench.full_size.evidence import SHARES, Evidence, Profile, log_sd, plain, series
from bench.full_size.forecasts import misses
from bench.full_size.geometry import Shape, tokens_a_step
from bench.search.forecasts import CONFIDENCE
from spectune.domain.estimate import Estimate
from spectune.domain.history import History
from spectune.domain.metrics import MetricName
from spectune.domain.trial import Trial
from spectune.predict.points import capacity_of

SHAPE = Shape()
HIGH, LOW = SHARES
CONTEXT = 400
"""Tokens of a request, about the middle of its answer."""

CLASSES = (
    ("experts", ("fused_moe", "moe_align", "moe_sum", "topk")),
    ("matrices beside them", ("nvjet", "splitKreduce", "gemv", "gemm")),
    ("all-reduce", ("all_reduce", "ncclDevKernel")),
    ("attention, full and linear", ("gated_delta", "_fwd_", "conv1d", "gating", "rope", "kv_", "store_cache")),
)
"""Kind of work -> parts of the names of its kernels."""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"| {' | '.join('---' for _ in heads)} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def speeds(evidence: Evidence) -> Iterator[str]:
    """Per-user and aggregate speed, and room, of every depth."""
    found = series(evidence.history, HIGH)
    levels = _levels(evidence.history)
    for metric, name in (
        (MetricName.PER_USER_SPEED, "tok/s of a user"),
        (MetricName.AGGREGATE_SPEED, "tok/s of all"),
        (MetricName.TTFT_P50, "seconds to the first token, median"),
    ):
        yield f"\n**{name}**\n"
        digits = 2 if metric is MetricName.TTFT_P50 else 0
        rows = (
            [_depth(depth), *(_several([_seen(t, users, metric) for t in trials], digits) for users in levels)]
            for depth, trials in found.items()
        )
        yield from table(["steps k", *map(_users, levels)], rows)
    yield "\n**room**\n"
    rooms = {depth: capacity_of(trials[0]) for depth, trials in found.items()}
    rows = ([_depth(k), f"{room.max_running}", f"{room.kv_tokens:,}"] for k, room in rooms.items())
    yield from table(["steps k", "requests at a time", "KV tokens"], rows)


def pessimistic(evidence: Evidence) -> Iterator[str]:
    """One user's speed at lower acceptance: the same steps, fewer tokens of each."""
    rows = []
    for depth, trials in series(evidence.history, HIGH).items():
        seen = [_seen(trial, 1, MetricName.PER_USER_SPEED) for trial in trials]
        speed = fmean(one.value for one in seen if one is not None)
        high, low = tokens_a_step(HIGH, depth), tokens_a_step(LOW, depth)
        rows.append(
            [_depth(depth), f"{1000 * high / speed:.2f}", f"{high:.2f}", f"{low:.2f}", f"{speed * low / high:.0f}"]
        )
    heads = ["steps k", "ms a step", f"tokens a step at {HIGH}", f"at {LOW}", f"tok/s at {LOW}"]
    yield from table(heads, rows)


def forecasts(evidence: Evidence) -> Iterator[str]:
    """Errors of what is forecast from the baselines and one depth."""
    history = evidence.history
    depths = [depth for depth in series(history, HIGH) if depth]
    rows = []
    for known in depths:
        found = list(misses(history, HIGH, known))
        cells: list[str] = []
        for depth in depths:
            own = [miss for at, miss in found if at == depth]
            cells.append(", ".join(f"{100 * math.expm1(miss.off):+.0f}" for miss in own) or "measured")
        off = median(abs(math.expm1(miss.off)) for _, miss in found)
        inside = fmean(miss.inside(with_noise=True) for _, miss in found)
        rows.append([f"k={known}", *cells, f"{100 * off:.0f} %", f"{100 * inside:.0f} %"])
    heads = ["measured", *(f"k={k} at {', '.join(map(str, _levels(history)))} users, %" for k in depths)]
    yield from table([*heads, "median", f"within its {100 * CONFIDENCE:.0f} %"], rows)


def kernels(evidence: Evidence) -> Iterator[str]:
    """What the experts of one layer cost, against the time to read their weights."""
    rows = []
    for one in evidence.kernels:
        moved = one.distinct * SHAPE.expert_bytes
        floor = 1e6 * moved / evidence.read_rate
        intensity = SHAPE.expert_operations(one.tokens) / moved
        shares = (f"{100 * floor / time:.0f} %" for time in (one.default, one.borrowed, one.tuned))
        times = (f"{time:.0f}" for time in (one.default, one.borrowed, one.tuned))
        rows.append([f"{one.tokens}", f"{one.distinct:.0f}", f"{moved / 1e6:.0f}", f"{intensity:.1f}", *times, *shares])
    heads = ["tokens", "experts called", "MB read", "operations a byte", "default, us", "borrowed, us", "tuned, us"]
    yield from table([*heads, "of the card's speed: default", "borrowed", "tuned"], rows)


def profile(evidence: Evidence) -> Iterator[str]:
    """Where the GPU's time goes in a step."""
    rows = []
    for setting, found in sorted(evidence.profiles.items()):
        for batch, seen in sorted(found.items()):
            parts = dict(_classes(seen))
            rest = seen.busy / seen.steps / 1000 - sum(parts.values())
            cells = [f"{parts[name]:.2f}" for name, _ in CLASSES]
            rows.append([setting, f"{batch}", f"{seen.span / seen.steps / 1000:.2f}", *cells, f"{rest:.2f}"])
    yield from table(["setting", "users", "ms a step", *(name for name, _ in CLASSES), "other"], rows)


def roofline(evidence: Evidence) -> Iterator[str]:
    """A user's step alone, against the bytes that it must move."""
    rows = []
    for depth, trials in series(evidence.history, HIGH).items():
        seen = [_seen(trial, 1, MetricName.PER_USER_SPEED) for trial in trials]
        speed = fmean(one.value for one in seen if one is not None)
        tokens, moved = tokens_a_step(HIGH, depth), SHAPE.step(1, depth, CONTEXT)
        floor, took = moved / evidence.read_rate, tokens / speed
        cells = [f"{moved / 1e9:.1f}", f"{1000 * floor:.2f}", f"{1000 * took:.2f}", f"{100 * floor / took:.0f} %"]
        rows.append([_depth(depth), *cells, f"{tokens / floor:.0f}", f"{speed:.0f}"])
    heads = [
        "steps k",
        "GB a step and GPU",
        "ms at the card's speed",
        "ms measured",
        "share",
        "tok/s at most",
        "measured",
    ]
    yield from table(heads, rows)


def knobs(evidence: Evidence) -> Iterator[str]:
    """Other settings against the same depth without them, by per-user speed."""
    base = series(evidence.history, HIGH)
    rows = []
    for trial in evidence.history.finished:
        other = plain(trial.candidate).knobs
        depth = trial.candidate.speculation.depth
        if not other or not trial.cells or depth not in base:
            continue
        cells = []
        for users in _levels(evidence.history):
            with_it = _seen(trial, users, MetricName.PER_USER_SPEED)
            without = [_seen(t, users, MetricName.PER_USER_SPEED) for t in base[depth]]
            cells.append(_ratio(with_it, [one for one in without if one is not None]))
        rows.append([", ".join(f"{k.removeprefix('env.')}" for k in other), _depth(depth), *cells])
    yield from table(["setting", "steps k", *map(_users, _levels(evidence.history))], rows)


def _classes(seen: Profile) -> Iterator[tuple[str, float]]:
    """Kind of work -> milliseconds a step."""
    left = list(seen.kernels)
    for name, parts in CLASSES:
        own = [kernel for kernel in left if any(part in kernel[0] for part in parts)]
        left = [kernel for kernel in left if kernel not in own]
        yield name, sum(time for _, time, _ in own) / seen.steps / 1000


def _ratio(one: Estimate | None, others: Sequence[Estimate]) -> str:
    """One speed against the mean of others in per cent, with 95 % of what their windows alone let vary."""
    if one is None or not others:
        return ""
    log = math.log(one.value) - fmean(math.log(other.value) for other in others)
    variance = log_sd(one) ** 2 + sum(log_sd(other) ** 2 for other in others) / len(others) ** 2
    reach = NormalDist().inv_cdf(0.975) * math.sqrt(variance)
    low, value, high = (100 * math.expm1(log + by) for by in (-reach, 0.0, reach))
    return f"{value:+.0f} % ({low:+.0f} to {high:+.0f})"


def _levels(history: History) -> list[int]:
    return [cell.level.users for cell in history.opened.spec.cells]


def _seen(trial: Trial, users: int, metric: MetricName) -> Estimate | None:
    found = (c.measurement for c in trial.cells.values() if c.measurement.cell.level.users == users)
    return next((measured.metrics.get(metric) for measured in found), None)


def _several(found: Sequence[Estimate | None], digits: int) -> str:
    """One figure with its interval; of several launches each."""
    told = [one for one in found if one is not None]
    return "; ".join(f"{one.value:.{digits}f} ({one.low:.{digits}f}-{one.high:.{digits}f})" for one in told)


def _depth(depth: int) -> str:
    return f"{depth}" if depth else "none"


def _users(users: int) -> str:
    return "1 user" if users == 1 else f"{users} users"
