"""Self-checks of a measurement: each a pure function that returns a doubt with its advice, or nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np

from spectune.domain.estimate import Estimate
from spectune.domain.measurement import Doubt, Outcome, TokenSource
from spectune.domain.metrics import MetricName
from spectune.domain.workload import LevelKind
from spectune.load import intervals, open_doubts
from spectune.load.facts import Facts

_IN_FLIGHT_SHARE = 0.9
_FAILED_SHARE = 0.01
_CACHED_SHARE = 0.5
_SAME_ANSWERS = 0.2
_LOOPING_ANSWERS = 0.2
_LOOP_COMPRESSION = 0.15
_LAG_S = 0.001
_WORST_LAG_S = 0.100
_SHARPEST, _WIDEST = 0.02, 0.10
_BLOCKED_SHARE = 0.25
_CLIENT_CPU = 0.7
_WAY_S, _WAY_SHARE = 0.001, 0.05
_COUNTER_GAP = 0.01
_DRIFT = 0.15


def doubts(facts: Facts) -> tuple[Doubt, ...]:
    """All reasons not to trust a measurement."""
    return tuple(doubt for check in CHECKS if (doubt := check(facts)) is not None)


def nothing_steady(facts: Facts) -> Doubt | None:
    if facts.kept:
        return None
    outcomes = Counter(r.record.outcome.value for r in facts.everything)
    detail = next((r.record.detail for r in facts.everything if r.record.detail), "")
    seen = ", ".join(f"{count} {name}" for name, count in outcomes.items()) or "no request at all"
    return Doubt(
        "nothing-measured",
        f"no request of the steady window was served: {seen}" + (f" ({detail})" if detail else ""),
        "Look at the server's log, and at the message of the failed requests.",
        fatal=True,
    )


def unknown_tokens(facts: Facts) -> Doubt | None:
    unknown = sum(r.record.output_tokens is None for r in facts.kept)
    if not unknown:
        return None
    return Doubt(
        "tokens-unknown",
        f"{unknown} of {len(facts.kept)} answers came without usage; chunks are not tokens and were not counted",
        "Let the server send usage (stream_options.include_usage) or token ids, or name the model's tokenizer.",
        fatal=True,
    )


def counted_again(facts: Facts) -> Doubt | None:
    again = sum(r.record.token_source is TokenSource.TOKENIZER for r in facts.kept)
    if not again:
        return None
    return Doubt(
        "tokens-counted-again",
        f"{again} of {len(facts.kept)} answers came without usage; their text was counted with a tokenizer",
        "Text need not be cut into the same tokens again. Compare only with measurements that were counted so too.",
    )


def failures(facts: Facts) -> Doubt | None:
    ours = {Outcome.OK, Outcome.CANCELLED}
    failed = [r.record for r in facts.everything if r.record.outcome not in ours]
    if not facts.kept or len(failed) <= _FAILED_SHARE * len(facts.everything):
        return None
    kinds = ", ".join(f"{count} {name}" for name, count in Counter(r.outcome.value for r in failed).items())
    return Doubt(
        "failed-requests",
        f"{len(failed)} of {len(facts.everything)} requests failed: {kinds} ({failed[0].detail})",
        "A server that drops requests can look fast. Find the cause before comparing.",
    )


def few_requests(facts: Facts) -> Doubt | None:
    if len(facts.kept) != 1:
        return None
    return Doubt(
        "few-requests",
        "a single request fell into the steady window",
        "Give the cell more seconds (bench: --seconds; a campaign: budget.cell_seconds), or ask for shorter answers.",
    )


def not_in_flight(facts: Facts) -> Doubt | None:
    if facts.cell.level.kind is not LevelKind.CONCURRENCY or not facts.kept:
        return None
    asked = facts.cell.level.users
    if facts.in_flight + facts.thinking >= _IN_FLIGHT_SHARE * asked:
        return None
    thinking = f" and {facts.thinking:.1f} users between two turns" if facts.thinking else ""
    return Doubt(
        "load-not-reached",
        f"{facts.in_flight:.1f} requests were in flight on average{thinking}, {asked} were asked for",
        "Prompts ran out, or the client is too slow: see the other doubts.",
    )


def late_client(facts: Facts) -> Doubt | None:
    """Lateness of the client's loop is added to whatever it stamps. It matters where it could move what is reported."""
    mean, worst = facts.lag_s
    moved = _moved(facts, mean, worst)
    if not moved:
        return None
    return Doubt(
        "client-late",
        f"the client itself was late by {1000 * mean:.1f} ms on average and {1000 * worst:.0f} ms at worst, which can "
        f"move {' and '.join(moved)}",
        "Measure from another machine, or keep a core free for the client.",
    )


def _moved(facts: Facts, mean: float, worst: float) -> list[str]:
    """Which metrics the lateness could move by more than they are known to, and more than anybody minds."""
    moved = []
    ttft, p99, speed = (facts.metrics.get(n) for n in (MetricName.TTFT, MetricName.TTFT_P99, MetricName.PER_USER_SPEED))
    if ttft and mean > max(_LAG_S, _material(ttft)):
        moved.append(f"TTFT by {100 * mean / ttft.value:.0f} %")
    if p99 and worst > max(_WORST_LAG_S, p99.value):
        moved.append("the p99 of TTFT")
    decodes = [seconds for r in facts.kept if (seconds := r.record.decode_s)]
    # The first and the last stamp of an answer are late by something each; their difference is off by as much.
    if speed and decodes and mean > max(_LAG_S, _material(speed) / speed.value * sum(decodes) / len(decodes)):
        moved.append("per-user speed")
    return moved


def _material(estimate: Estimate) -> float:
    """The least change of a metric that matters: its interval's half-width, but for very sharp and very wide ones."""
    half = (estimate.high - estimate.low) / 2
    return min(max(half, _SHARPEST * estimate.value), _WIDEST * estimate.value)


def blocked_client(facts: Facts) -> Doubt | None:
    """A client that stands still for a good part of a request sends the next one late, and measures itself."""
    latencies = [seconds for r in facts.kept if (seconds := r.record.latency_s) is not None]
    late = facts.lag_s[0]
    if not latencies or late <= _BLOCKED_SHARE * sum(latencies) / len(latencies):
        return None
    return Doubt(
        "client-blocked",
        f"the client stood still for {1000 * late:.0f} ms on average, of {1000 * sum(latencies) / len(latencies):.0f} "
        "ms that a request takes",
        "What is measured is the client. Measure from another machine, or keep a core free for the client.",
    )


def busy_client(facts: Facts) -> Doubt | None:
    if facts.client_cpu <= _CLIENT_CPU:
        return None
    return Doubt(
        "client-busy",
        f"the client used {100 * facts.client_cpu:.0f} % of a core",
        "It may measure itself. Lower the load, or measure from another machine.",
    )


def far_server(facts: Facts) -> Doubt | None:
    ttft = facts.metrics.get(MetricName.TTFT)
    if ttft is None or facts.way_s <= max(_WAY_S, _WAY_SHARE * ttft.value):
        return None
    return Doubt(
        "network-between",
        f"each round trip to the server takes {1000 * facts.way_s:.1f} ms, and a first token {1000 * ttft.value:.1f}"
        " ms: that is much of what was measured",
        "Send the load from the server's own host: --measure-from host.",
    )


def busy_host(facts: Facts) -> Doubt | None:
    if facts.load_average <= facts.cores:
        return None
    return Doubt(
        "busy-host",
        f"load average {facts.load_average:.1f} on {facts.cores} cores when the cell began",
        "Other programs compete with the server; stop them, or trust only interleaved comparisons.",
    )


def cached_prompts(facts: Facts) -> Doubt | None:
    fresh = [r.record for r in facts.kept if not r.in_session]
    told = [r for r in fresh if r.prompt_tokens and r.cached_tokens is not None]
    total = sum(r.prompt_tokens or 0 for r in told)
    cached = sum(r.cached_tokens or 0 for r in told)
    if not total or cached <= _CACHED_SHARE * total:
        return None
    return Doubt(
        "prefix-cache-hit",
        f"{100 * cached / total:.0f} % of prompt tokens came from the server's prefix cache; prompts were meant unseen",
        "Restart the server, or put a nonce in front of the prompts; TTFT and speed are flattered.",
    )


def same_answers(facts: Facts) -> Doubt | None:
    hashes = [r.record.output_sha256 for r in facts.kept if r.record.output_sha256]
    if len(hashes) < 5:
        return None
    repeated = len(hashes) - len(set(hashes))
    if repeated <= _SAME_ANSWERS * len(hashes):
        return None
    return Doubt(
        "same-answers",
        f"{repeated} of {len(hashes)} answers repeat another one word for word, though the prompts differ",
        "Read some answers: the model may ignore the prompt, or the server may answer from a cache.",
    )


def loops(facts: Facts) -> Doubt | None:
    ratios = [r.record.output_compression for r in facts.kept if r.record.output_compression is not None]
    looping = sum(ratio < _LOOP_COMPRESSION for ratio in ratios)
    if len(ratios) < 5 or looping <= _LOOPING_ANSWERS * len(ratios):
        return None
    return Doubt(
        "looping-answers",
        f"{looping} of {len(ratios)} longer answers are repetitions of themselves",
        "Loops are easy to draft and flatter speculation. Use the model's own sampling, and let answers end.",
    )


def forced_length(facts: Facts) -> Doubt | None:
    forced = len(facts.kept) if facts.cell.sampling.ignore_eos else sum(r.forced for r in facts.kept)
    if not forced:
        return None
    return Doubt(
        "forced-length",
        f"{forced} of {len(facts.kept)} answers were forced to full length (ignore_eos)",
        "Text after the natural end repeats itself and flatters speculation; do not promote on this alone.",
    )


def counter_mismatch(facts: Facts) -> Doubt | None:
    """Compares the client's tokens with the server's own. Cancelled requests may count on the server or may not, and
    go on there until it notices: SGLang under load wrote up to an answer more for each."""
    if facts.before is None or facts.after is None:
        return None
    if facts.before.output_tokens is None or facts.after.output_tokens is None:
        return None
    server = facts.after.output_tokens - facts.before.output_tokens
    ours = sum(r.record.output_tokens or 0 for r in facts.everything)
    open_ended = sum(r.record.chunks for r in facts.everything if r.record.output_tokens is None)
    cancelled = sum(r.record.output_tokens is None for r in facts.everything)
    answer = ours / max(1, len(facts.everything) - cancelled)
    slack = _COUNTER_GAP * max(server, 1) + 2 * cancelled
    if ours - slack <= server <= ours + 8 * open_ended + answer * cancelled + slack:
        return None
    return Doubt(
        "tokens-differ-from-server",
        f"the client counted {ours} output tokens, the server {server}",
        "Somebody else uses the server, or usage is wrong; neither may be measured through.",
    )


def drifting(facts: Facts) -> Doubt | None:
    """First third of the window against its last, where the difference is beyond the spread of their requests. What
    resembles itself within a third widens nothing here: a drift does just that."""
    speeds = [r.record.speed_tok_s for r in facts.kept if r.record.speed_tok_s]
    third = len(speeds) // 3
    if third < 4:
        return None
    first, last = np.log(speeds[:third]), np.log(speeds[-third:])
    moved = float(last.mean() - first.mean())
    reach = intervals.student(third - 1) * float(first.std(ddof=1) + last.std(ddof=1)) / math.sqrt(third)
    change = math.expm1(moved)
    if abs(moved) <= reach or abs(change) <= _DRIFT:
        return None
    return Doubt(
        "drift",
        f"per-user speed changed by {100 * change:+.0f} % from the first third of the window to the last",
        "Warm-up was not over, or the machine changed (heat, neighbours). Measure longer.",
    )


CHECKS: tuple[Callable[[Facts], Doubt | None], ...] = (
    nothing_steady,
    unknown_tokens,
    counted_again,
    failures,
    few_requests,
    not_in_flight,
    open_doubts.late_arrivals,
    open_doubts.growing_queue,
    late_client,
    blocked_client,
    busy_client,
    far_server,
    busy_host,
    cached_prompts,
    same_answers,
    loops,
    forced_length,
    counter_mismatch,
    drifting,
)
