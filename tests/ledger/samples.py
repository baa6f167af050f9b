"""Events of a small, plausible campaign."""

from __future__ import annotations

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Capacity, Counters, Deployment, Hardware, Seen, Service
from spectune.domain.estimate import Estimate, Ratio
from spectune.domain.events import (
    CampaignEnded,
    CampaignOpened,
    Decided,
    Deployed,
    Event,
    Measured,
    Provenance,
    TrialEnded,
    TrialStarted,
    Verified,
)
from spectune.domain.finding import Finding, Status, Verification
from spectune.domain.measurement import Acceptance, Doubt, Measurement, Outcome, Phase, RequestRecord, TokenSource
from spectune.domain.metrics import MetricName
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Best, Conclusion, Decision, Verdict
from spectune.domain.workload import Cell, Level, Sampling, WorkloadInfo

BASELINE = Candidate()
DRAFT = Candidate(Speculation(Method.DRAFT, 3, draft_model="/m/draft.gguf"), {"threads": 2, "no-mmap": True})
CELL = Cell(Level(2.0), Sampling(0.7))


def opened(name: str = "demo", at: float = 1_772_375_130.0) -> CampaignOpened:
    service = Service("llama.cpp", "/b/llama-server", "/m/a.gguf", {"ctx-size": 4096}, {}, "127.0.0.1", 8080, "a")
    hardware = Hardware("host", "cpu", 2, 8 << 30)
    workload = WorkloadInfo("builtin", "ab" * 32, 60, {"chat": 30, "prose": 30})
    return CampaignOpened(
        at,
        CampaignSpec(name),
        service,
        BASELINE,
        Provenance("0.1.0", "b11434", hardware, workload, {"model": "cd" * 32}),
    )


def started(trial: int, candidate: Candidate = DRAFT, attempt: int = 1) -> TrialStarted:
    return TrialStarted(20.0 + trial, trial, attempt, candidate, Purpose.EXPLORE, "drafting may pay")


def records(count: int) -> tuple[RequestRecord, ...]:
    return tuple(
        RequestRecord(
            prompt_id=f"chat-{i:05}",
            domain="chat" if i % 2 else "prose",
            outcome=Outcome.OK if i % 7 else Outcome.TIMEOUT_IDLE,
            phase=Phase.STEADY if i > 3 else Phase.WARMUP,
            due_ns=7_000_000_000_000_000 + i,
            sent_ns=7_000_000_000_000_100 + i,
            first_ns=7_000_000_000_900_000 + i if i % 7 else None,
            last_ns=7_000_000_090_900_000 + i if i % 7 else None,
            end_ns=7_000_000_091_000_000 + i,
            output_tokens=128 if i % 7 else None,
            token_source=TokenSource.USAGE if i % 7 else TokenSource.UNKNOWN,
            prompt_tokens=33,
            cached_tokens=0,
            chunks=64,
            finish_reason="length",
            drafted=120,
            accepted=i % 120,
            output_sha256="0123456789abcdef",
            output_compression=0.1 * (i % 9),
            detail="" if i % 7 else "no byte for 30 s – \N{SNOWMAN}",
        )
        for i in range(count)
    )


def measured(trial: int, count: int = 5) -> Measured:
    speed = Estimate(31.5, float("-inf"), float("inf"), 1)
    measurement = Measurement(
        cell=CELL,
        started_unix=1e9,
        window_s=20.5,
        metrics={MetricName.PER_USER_SPEED: speed, MetricName.AGGREGATE_SPEED: Estimate(60.0, 58.5, 61.25, 12)},
        by_domain={"chat": {MetricName.PER_USER_SPEED: speed}},
        requests={Outcome.OK: count},
        in_flight=1.97,
        acceptance=Acceptance(100, 300, 200, (0.9, 0.7, 0.4), "GET /metrics"),
        counters_before=Counters(output_tokens=1, accepted_per_position=(1, 2)),
        load_average=(0.25, 1.5),
        stopped="time is up",
        doubts=(Doubt("machine-busy", "load 1.5", "stop other work"),),
    )
    return Measured(30.0 + trial, trial, measurement, records(count))


def decided(trial: int, decision: Decision = Decision.KEEP) -> Decided:
    return Decided(50.0 + trial, trial, Verdict(decision, "12 % faster", BASELINE.id, Ratio(1.12, 1.08, 1.16, 9)))


def trial_events(trial: int, candidate: Candidate = DRAFT, count: int = 5) -> list[Event]:
    """A whole trial, with everything that may be in one."""
    seen = Seen(True, Method.DRAFT, 3, {"threads": 2}, {"depth": "log"}, capacity=Capacity(4096), counters=Counters(1))
    deployment = Deployment(("llama-server", "-c", "4096"), {}, "http://127.0.0.1:8080", 4711, 1e9, 0.8, 0.3, seen)
    finding = Finding("speculation-live", Status.UNKNOWN, "draft", "nothing in the log", "why", "advice", False)
    return [
        started(trial, candidate),
        Deployed(25.0, trial, deployment),
        Verified(26.0, trial, Verification((finding,))),
        measured(trial, count),
        TrialEnded(40.0, trial, TrialState.UNKNOWN, "speculation-live: nothing in the log", "log\x00 end"),
        decided(trial),
    ]


def ended(winner: str | None = DRAFT.id) -> CampaignEnded:
    best = Best(CELL.key, "chat", DRAFT.id, Ratio(1.2, 1.1, float("inf"), 4))
    return CampaignEnded(90.0, Conclusion(winner, winner != BASELINE.id, "it wins", best=(best,), notes={"a": "b"}))
