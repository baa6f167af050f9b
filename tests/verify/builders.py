"""A sound deployment for the verify tests, to be spoiled one thing at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict, Unpack

from spectune.domain.asked import Asked
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import (
    Adjustment,
    Capacity,
    Counters,
    Evidence,
    Exit,
    Launch,
    ListenerOwner,
    Page,
    Seen,
    Service,
)
from spectune.domain.finding import Answer
from spectune.domain.knobs import Settings
from spectune.domain.measurement import Acceptance, Doubt, Measurement, Outcome, Phase, RequestRecord, TokenSource
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Cell, Level, LevelKind, Sampling
from spectune.verify.observed import Observed

ALIKE: Settings = {"batch-size": 2048}
URL = "http://127.0.0.1:8080"
MODEL = "/models/small.gguf"
CELLS = tuple(Cell(Level(users), Sampling(t)) for users in (1, 4) for t in (0.0, 0.7))
BASELINE = Candidate()
DRAFT = Candidate(Speculation(Method.DRAFT, 3, draft_model="/models/draft.gguf"))
NGRAM = Candidate(Speculation(Method.NGRAM, 8, settings={"spec-ngram-simple-size-n": 4}))
POOL = Candidate(Speculation(Method.NGRAM_POOL, 64))
DRAFT_FLAGS = ("--spec-type", "draft-simple", "--spec-draft-n-max", "3")


SERVICE = Service("llama.cpp", "/bin/server", MODEL, {}, {}, "127.0.0.1", 8080, "small")


def launch(*flags: str) -> Launch:
    argv = ("/bin/server", "-m", MODEL, "--port", "8080", *flags)
    return Launch(argv, {}, URL, "/health", ("/slots",), "/metrics", "small")


def asked(
    candidate: Candidate = DRAFT,
    flags: tuple[str, ...] = DRAFT_FLAGS,
    *,
    knobs: Settings | None = None,
    cells: tuple[Cell, ...] = CELLS,
    longest: int | None = 400,
    baseline_warnings: tuple[str, ...] | None = (),
    baseline_capacity: Capacity | None = None,
    baseline_settings: Settings | None = ALIKE,
    engine: str = "llama.cpp",
) -> Asked:
    if knobs is not None:
        candidate = replace(candidate, knobs=knobs)
    return Asked(
        service=replace(SERVICE, engine=engine),
        candidate=candidate,
        baseline=BASELINE,
        launch=launch(*flags),
        cells=cells,
        started_after=1000.0,
        tokens_per_request=longest,
        baseline_warnings=baseline_warnings,
        baseline_capacity=baseline_capacity,
        baseline_settings=baseline_settings,
    )


EVIDENCE = Evidence(
    log="0.00.001 I srv llama_server: model loaded\n",
    pages={"/slots": Page(200, "[]")},
    listener=ListenerOwner.OURS,
    started_unix=1001.0,
)
SEEN = Seen(
    speculating=True,
    method=Method.DRAFT,
    depth=3,
    settings=ALIKE,
    model=MODEL,
    model_id="small",
    capacity=Capacity(kv_tokens=8192, max_running=4, context_per_request=2048),
)


class _EvidenceParts(TypedDict, total=False):
    log: str
    pages: Mapping[str, Page]
    listener: ListenerOwner
    started_unix: float | None
    exit: Exit | None


def evidence(**parts: Unpack[_EvidenceParts]) -> Observed:
    """Sound but for these parts of the evidence."""
    return Observed(replace(EVIDENCE, **parts), SEEN)


class _SeenParts(TypedDict, total=False):
    speculating: bool | None
    method: Method | None
    depth: int | None
    settings: Settings
    sources: Mapping[str, str]
    model: str | None
    model_id: str | None
    capacity: Capacity
    warnings: tuple[str, ...]
    counters: Counters | None
    adjustments: tuple[Adjustment, ...]
    invalid_output: str | None


def seen(**parts: Unpack[_SeenParts]) -> Observed:
    """Sound but for these parts of what was seen."""
    return Observed(EVIDENCE, replace(SEEN, **parts))


def record(
    prompt_id: str,
    drafted: int | None = None,
    accepted: int | None = None,
    *,
    outcome: Outcome = Outcome.OK,
    sent: int = 0,
) -> RequestRecord:
    return RequestRecord(
        prompt_id=prompt_id,
        domain="chat",
        outcome=outcome,
        phase=Phase.STEADY,
        due_ns=0,
        sent_ns=sent,
        first_ns=1,
        last_ns=2,
        end_ns=3,
        output_tokens=64,
        token_source=TokenSource.USAGE,
        drafted=drafted,
        accepted=accepted,
    )


def cell(
    acceptance: Acceptance | None = None,
    *,
    at: Cell = CELLS[0],
    counters: tuple[Counters | None, Counters | None] = (None, None),
    records: tuple[RequestRecord, ...] = (),
    requests: Mapping[Outcome, int] | None = None,
    started: float = 0.0,
    doubts: tuple[Doubt, ...] = (),
) -> MeasuredCell:
    measurement = Measurement(
        cell=at,
        started_unix=started,
        window_s=10.0,
        metrics={},
        by_domain={},
        requests={Outcome.OK: 100} if requests is None else requests,
        in_flight=at.level.value,
        acceptance=acceptance,
        counters_before=counters[0],
        counters_after=counters[1],
        doubts=doubts,
    )
    return MeasuredCell(measurement, records)


def loaded(*cells: MeasuredCell, base: Observed | None = None) -> Observed:
    """Sound, with these cells measured, under the keys "cell 1", "cell 2" ..."""
    return replace(base or seen(), cells={f"cell {n}": c for n, c in enumerate(cells, 1)})


def drafts(drafts: int, share: float, *per_position: float, depth: int = 3) -> Acceptance:
    """Full-length drafts of which so large a share of tokens was accepted."""
    drafted = drafts * depth
    return Acceptance(drafts, drafted, round(drafted * share), per_position)


def answers(*texts: str, error: str = "") -> tuple[Answer, ...]:
    return tuple(Answer(f"p{n}", text, "stop", error) for n, text in enumerate(texts))


RATE_CELL = Cell(Level(2.5, LevelKind.RATE), Sampling(0.0))
