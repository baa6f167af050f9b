"""The catalogue of metrics: each has one name, one unit, one formula. Docs and report headings come from here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MetricName(StrEnum):
    """Names used in ledgers, files and objectives."""

    TTFT = "ttft_s"
    TTFT_P50 = "ttft_p50_s"
    TTFT_P99 = "ttft_p99_s"
    TPOT = "tpot_s"
    TPOT_P50 = "tpot_p50_s"
    TPOT_P99 = "tpot_p99_s"
    LATENCY = "latency_s"
    PER_USER_SPEED = "per_user_tok_s"
    AGGREGATE_SPEED = "aggregate_tok_s"
    REQUEST_RATE = "requests_s"
    GOODPUT = "goodput_requests_s"
    CHUNK_GAP = "chunk_gap_s"
    ACCEPT_LENGTH = "accept_length"


@dataclass(frozen=True, slots=True)
class Metric:
    """One quantity.

    Attributes:
        name: key in ledgers and files.
        title: heading for people.
        unit: as printed.
        formula: how it is computed, from which fields.
        larger_is_better: None where it only explains and never ranks.
    """

    name: MetricName
    title: str
    unit: str
    formula: str
    larger_is_better: bool | None


METRICS: dict[MetricName, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            MetricName.TTFT,
            "time to first token",
            "s",
            "first output token received - request due (in a closed loop: sent); reasoning and tool calls are output, "
            "role-only chunks are not",
            False,
        ),
        Metric(MetricName.TTFT_P50, "time to first token, median", "s", "half of the requests were faster", False),
        Metric(MetricName.TTFT_P99, "time to first token, p99", "s", "99 of 100 requests were faster", False),
        Metric(
            MetricName.TPOT,
            "time per output token",
            "s/token",
            "(t_last - t_first) / (output tokens - 1) of one request; tokens from the server's usage",
            False,
        ),
        Metric(
            MetricName.TPOT_P50, "time per output token, median", "s/token", "half of the requests were faster", False
        ),
        Metric(MetricName.TPOT_P99, "time per output token, p99", "s/token", "99 of 100 requests were faster", False),
        Metric(
            MetricName.LATENCY,
            "request latency",
            "s",
            "last output received - request due (in a closed loop: sent)",
            False,
        ),
        Metric(
            MetricName.PER_USER_SPEED,
            "per-user speed",
            "tok/s",
            "sum of (output tokens - 1) / sum of (t_last - t_first) over the requests of the steady window",
            True,
        ),
        Metric(
            MetricName.AGGREGATE_SPEED,
            "aggregate speed",
            "tok/s",
            "output tokens of all requests that fall into the steady window / length of the window",
            True,
        ),
        Metric(MetricName.REQUEST_RATE, "requests finished", "req/s", "requests finished in the window / window", True),
        Metric(
            MetricName.GOODPUT,
            "goodput",
            "req/s",
            "requests due in the window that were served within the stated TTFT and TPOT / window",
            True,
        ),
        Metric(
            MetricName.CHUNK_GAP,
            "chunk gap",
            "s",
            "time between two SSE chunks with output; under speculation not a time per token",
            None,
        ),
        Metric(
            MetricName.ACCEPT_LENGTH,
            "accept length",
            "tokens/step",
            "tokens emitted per verify step, bonus token included: 1 + accepted / drafts, from counter differences",
            None,
        ),
    )
}
