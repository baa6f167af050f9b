"""Measurements: raw records of requests, their summary, and doubts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from spectune.domain.deployment import Counters
from spectune.domain.estimate import Estimate
from spectune.domain.metrics import MetricName
from spectune.domain.workload import Cell


class Outcome(StrEnum):
    """How a request ended. Only OK counts as served."""

    OK = "ok"
    HTTP_ERROR = "http-error"
    STREAM_ERROR = "stream-error"
    CONNECT_FAILED = "connect-failed"
    RESET = "reset"
    TRUNCATED = "truncated"
    TIMEOUT_CONNECT = "timeout-connect"
    TIMEOUT_FIRST = "timeout-first-token"
    TIMEOUT_IDLE = "timeout-idle"
    EMPTY = "empty"
    CANCELLED = "cancelled"


class TokenSource(StrEnum):
    """Where a request's number of output tokens comes from; never from counting chunks."""

    USAGE = "usage"
    TOKEN_IDS = "token-ids"
    TOKENIZER = "tokenizer"
    UNKNOWN = "unknown"


class Phase(StrEnum):
    """Where a request falls: only STEADY ones enter the summary."""

    WARMUP = "warm-up"
    STEADY = "steady"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request, raw. Times are nanoseconds of the load generator's monotonic clock.

    Attributes:
        prompt_id, domain: of the prompt.
        outcome, detail: how it ended; detail is for people.
        phase: warm-up, steady or drain.
        due_ns: when it should have left: by the schedule in an open loop, when it was sent in a closed one.
        sent_ns: when its last byte was handed to the socket.
        first_ns, last_ns: first and last chunk with output; None where there was none.
        end_ns: response over.
        output_tokens: None when unknown.
        token_source: where output_tokens comes from.
        prompt_tokens, cached_tokens: as the server tells; None when it does not.
        chunks: chunks with output.
        finish_reason: as the server tells.
        drafted, accepted: per-request draft counts where the engine sends them.
        output_sha256: first 16 hexadecimal digits of the hash of the answer; equal answers are seen by it.
        output_compression: compressed size / size of the answer; small values mean loops. None for short answers, and
            for most after the first few hundred.
    """

    prompt_id: str
    domain: str
    outcome: Outcome
    phase: Phase
    due_ns: int
    sent_ns: int
    first_ns: int | None
    last_ns: int | None
    end_ns: int
    output_tokens: int | None
    token_source: TokenSource
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    chunks: int = 0
    finish_reason: str | None = None
    drafted: int | None = None
    accepted: int | None = None
    output_sha256: str = ""
    output_compression: float | None = None
    detail: str = ""

    @property
    def decode_s(self) -> float | None:
        """Seconds from first to last output; None where there are fewer than two tokens or no known count."""
        if self.first_ns is None or self.last_ns is None or not self.output_tokens or self.output_tokens < 2:
            return None
        return (self.last_ns - self.first_ns) / 1e9

    @property
    def speed_tok_s(self) -> float | None:
        """Per-user speed of this request, (output tokens - 1) / decode time; None where it has none."""
        seconds = self.decode_s
        return (self.output_tokens - 1) / seconds if seconds and self.output_tokens else None

    @property
    def ttft_s(self) -> float | None:
        """Seconds from when the request was due to its first output.

        A generator that is late sends late exactly when the server is slow; counted from the sending, the wait of its
        users would be lost (coordinated omission).
        """
        return None if self.first_ns is None else (self.first_ns - self.due_ns) / 1e9

    @property
    def latency_s(self) -> float | None:
        """Seconds from when the request was due to its last output."""
        return None if self.last_ns is None else (self.last_ns - self.due_ns) / 1e9

    @property
    def lateness_s(self) -> float | None:
        """Seconds by which the load generator sent it late, connecting included; None where it was never sent."""
        return max(0, self.sent_ns - self.due_ns) / 1e9 if self.sent_ns else None


@dataclass(frozen=True, slots=True)
class Slo:
    """What a request must keep to be a good one; None is no bound.

    Attributes:
        ttft_s: most seconds to the first token.
        tpot_s: most seconds per output token. An answer of one token has none and keeps it.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None

    def is_met(self, record: RequestRecord) -> bool:
        """Whether a request was served within the bounds. What is not known is not met."""
        if record.outcome is not Outcome.OK or record.ttft_s is None:
            return False
        if self.ttft_s is not None and record.ttft_s > self.ttft_s:
            return False
        if self.tpot_s is None:
            return True
        speed = record.speed_tok_s
        return record.output_tokens is not None and (speed is None or 1 / speed <= self.tpot_s)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A named reason not to trust a measurement.

    Attributes:
        name: stable key ("prefix-cache-hit").
        message: what was seen, with numbers.
        advice: what to do about it.
        fatal: the measurement must not be used for a verdict.
    """

    name: str
    message: str
    advice: str
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How drafting went in a window, from differences of counters.

    Attributes:
        drafts: verify steps with a draft.
        drafted, accepted: tokens.
        per_position: unconditional share of drafts whose first i+1 tokens were all accepted; empty where not told.
        source: where the counts come from, for people.
    """

    drafts: int
    drafted: int
    accepted: int
    per_position: tuple[float, ...] = ()
    source: str = ""

    @property
    def length(self) -> float | None:
        """Tokens emitted per verify step with a draft, bonus token included; None where nothing was drafted."""
        return 1 + self.accepted / self.drafts if self.drafts else None

    @property
    def rate(self) -> float | None:
        """Share of drafted tokens accepted."""
        return self.accepted / self.drafted if self.drafted else None


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the load generator saw in one cell.

    Attributes:
        cell: level and sampling.
        started_unix: start of the cell, seconds since the epoch.
        window_s: length of the steady window, seconds.
        metrics: over all domains.
        by_domain: domain -> metrics of its requests (aggregate speed has no meaning there and is absent).
        requests: outcome -> how many, all phases.
        in_flight: mean number in flight during the steady window.
        acceptance: over the whole cell; None where the engine does not tell or nothing was drafted.
        acceptance_by_domain: from per-request counts; empty where the engine sends none.
        counters_before, counters_after: raw.
        load_average: 1-minute load average of the load generator's machine, at start and end.
        stopped: why measuring ended ("precise enough", "time is up", "prompts ran out", "server died").
        doubts: reasons not to trust it.
    """

    cell: Cell
    started_unix: float
    window_s: float
    metrics: Mapping[MetricName, Estimate]
    by_domain: Mapping[str, Mapping[MetricName, Estimate]]
    requests: Mapping[Outcome, int]
    in_flight: float
    acceptance: Acceptance | None = None
    acceptance_by_domain: Mapping[str, Acceptance] = field(default_factory=dict)
    counters_before: Counters | None = None
    counters_after: Counters | None = None
    load_average: tuple[float, float] = (0.0, 0.0)
    stopped: str = ""
    doubts: tuple[Doubt, ...] = ()
