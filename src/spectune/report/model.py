"""What a report says, as frozen values: made by `data.build`, read by every renderer, written as it stands in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from spectune.domain.deployment import Capacity
from spectune.domain.events import Provenance
from spectune.domain.finding import Finding
from spectune.domain.knobs import KnobValue
from spectune.domain.measurement import Acceptance, Doubt
from spectune.domain.metrics import MetricName
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Decision
from spectune.domain.workload import LevelKind

SCHEMA_VERSION = 1
"""Of the JSON form. Grows by one whenever a field is renamed, removed or changes its meaning."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its interval; `low` and `high` are None where nothing is known about the spread.

    The unit is that of the field which holds it. `n` counts independent observations (pairs, for ratios).
    """

    value: float
    low: float | None
    high: float | None
    n: int
    confidence: float


class AnswerKind(StrEnum):
    """CHANGE: use the winner. STAY: nothing beats the baseline. UNDECIDED: ended without a decision.
    UNFINISHED: the campaign still runs or was cut off."""

    CHANGE = "change"
    STAY = "stay"
    UNDECIDED = "undecided"
    UNFINISHED = "unfinished"


class NoteKind(StrEnum):
    """MARK: the numbers are not what a real service would give. WARNING: reasons for less trust. INFO: good to know."""

    MARK = "mark"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Note:
    kind: NoteKind
    text: str


@dataclass(frozen=True, slots=True)
class Cost:
    """One quantity before (baseline) and after (the candidate of the answer), as text."""

    name: str
    before: str
    after: str


class Held(StrEnum):
    YES = "held"
    NO = "broken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ConstraintCheck:
    """A constraint of the campaign against what was seen of the candidate of the answer."""

    name: str
    wanted: str
    seen: str
    held: Held


@dataclass(frozen=True, slots=True)
class Answer:
    """The first screen.

    Attributes:
        headline: the answer in one sentence.
        reason: why, in the judge's words.
        candidate: id of what to use, the best so far where unfinished; None without any.
        gain: objective's metric, candidate / baseline; None where nothing was compared.
        add, drop: flags to add to and to drop from the baseline's command line, shell-quoted, value included.
        command: the candidate's whole command line, shell-quoted; "" where it never ran.
        costs: room.
        losses: speeds that are lower than the baseline's.
    """

    kind: AnswerKind
    headline: str
    reason: str
    candidate: str | None
    gain: Interval | None
    add: tuple[str, ...]
    drop: tuple[str, ...]
    command: str
    costs: tuple[Cost, ...]
    constraints: tuple[ConstraintCheck, ...]
    notes: tuple[Note, ...]
    losses: tuple[Cost, ...] = ()


@dataclass(frozen=True, slots=True)
class CellInfo:
    """A cell of the campaign: level and temperature (None: the model's own sampling)."""

    key: str
    label: str
    level: float
    level_kind: LevelKind
    level_label: str
    temperature: float | None
    temperature_label: str


@dataclass(frozen=True, slots=True)
class BestRow:
    """The best of one slice; `domain` "" means all. `runner_up` can't be told apart from it; "" where there is none."""

    cell: str
    domain: str
    candidate: str
    is_baseline: bool
    ratio: Interval | None
    runner_up: str


@dataclass(frozen=True, slots=True)
class CandidateCell:
    """Speeds of a candidate in one cell, pooled over its comparable trials.

    Attributes:
        per_user, aggregate: tok/s.
        by_domain: domain -> per-user speed, tok/s.
        ttft_p50_s: median over the steady requests of all pooled trials; None without raw records.
    """

    cell: str
    per_user: Interval | None
    aggregate: Interval | None
    by_domain: Mapping[str, Interval]
    ttft_p50_s: float | None


@dataclass(frozen=True, slots=True)
class AcceptanceRow:
    """Drafting of a candidate at one temperature, counts added up over levels and trials; `domain` "" means all.

    Attributes:
        length: tokens per verify step, bonus token included; None where verify steps were not counted.
        rate: share of drafted tokens accepted.
        per_position: share of drafts accepted up to draft position 1, 2, ...
    """

    temperature: float | None
    domain: str
    drafts: int
    drafted: int
    accepted: int
    length: float | None
    rate: float | None
    per_position: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CandidateData:
    """A candidate in both spellings, with everything measured of it.

    Attributes:
        neutral: speculation in spectune's words.
        flags: the same in the engine's spelling, as flags that differ from the baseline's command line.
        family: what it shares with candidates of other depths; depth curves join candidates of a family.
        trials: numbers of the comparable trials pooled here.
    """

    id: str
    label: str
    is_baseline: bool
    is_answer: bool
    method: str
    depth: int
    neutral: str
    flags: tuple[str, ...]
    dropped_flags: tuple[str, ...]
    family: str
    trials: tuple[int, ...]
    cells: tuple[CandidateCell, ...]
    acceptance: tuple[AcceptanceRow, ...]
    room: Capacity


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One candidate in one cell. Dominated: another point of the same temperature is at least as good in per-user
    speed, aggregate speed and KV room, and better in one of them. Unknown KV room is left out of the comparison."""

    candidate: str
    cell: str
    per_user_tok_s: float
    aggregate_tok_s: float
    kv_tokens: int | None
    dominated: bool


@dataclass(frozen=True, slots=True)
class Setting:
    """An effective setting and where it was read ("" where the engine adapter did not say)."""

    name: str
    value: KnobValue
    source: str


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One trial in one cell and domain ("" means all). Metrics in their own units."""

    cell: str
    domain: str
    metrics: Mapping[MetricName, Interval]
    requests_ok: int | None
    requests_failed: int | None
    acceptance: Acceptance | None
    ttft_p50_s: float | None
    window_s: float
    load_average: tuple[float, float]
    stopped: str


@dataclass(frozen=True, slots=True)
class CellDoubt:
    cell: str
    doubt: Doubt


@dataclass(frozen=True, slots=True)
class TrialData:
    """One line of the timeline and what lies behind it.

    Attributes:
        minutes: None while it runs.
        launches: starts of the server, cut-off attempts included.
        command: as launched, shell-quoted, environment first; "" where it never started.
        overall: objective's metric against the reference.
        warnings: log lines that question a setting.
        invalid_output: set when the server said that its output is not valid.
    """

    number: int
    attempt: int
    purpose: Purpose
    proposed_because: str
    candidate: str
    label: str
    state: TrialState
    state_reason: str
    decision: Decision | None
    provisional: bool
    verdict_reason: str
    reference: str
    overall: Interval | None
    started_at: float
    minutes: float | None
    launches: int
    command: str
    ready_s: float | None
    load_average: float | None
    settings: tuple[Setting, ...]
    findings: tuple[Finding, ...]
    doubts: tuple[CellDoubt, ...]
    warnings: tuple[str, ...]
    invalid_output: str
    rows: tuple[MeasuredRow, ...]


@dataclass(frozen=True, slots=True)
class Effort:
    """What the campaign took."""

    trials: int
    launches: int
    minutes: float
    invalid: int
    abandoned: int
    resumed: int


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything that the renderers need.

    Attributes:
        opened_at, ended_at: seconds since the epoch; `ended_at` is the end of the last trial.
        objective: the metric that ranks, and how.
        marks: why the numbers are not a real service's (simulated, forced lengths); empty for a real measurement.
        noise: standard deviation of the log ratio of the baseline against itself; None when unknown.
        load_average: lowest and highest 1-minute load average seen; None without measurements.
    """

    campaign: str
    name: str
    opened_at: float
    ended_at: float | None
    engine: str
    model: str
    objective: MetricName
    confidence: float
    min_gain: float
    answer: Answer
    marks: tuple[str, ...]
    noise: float | None
    cells: tuple[CellInfo, ...]
    domains: tuple[str, ...]
    best: tuple[BestRow, ...]
    candidates: tuple[CandidateData, ...]
    frontier: tuple[FrontierPoint, ...]
    trials: tuple[TrialData, ...]
    effort: Effort
    provenance: Provenance
    load_average: tuple[float, float] | None
    schema_version: int = field(default=SCHEMA_VERSION)

    def candidate(self, candidate_id: str) -> CandidateData | None:
        return next((c for c in self.candidates if c.id == candidate_id), None)

    def label(self, candidate_id: str) -> str:
        """The candidate's label, or its id where it never had a trial."""
        found = self.candidate(candidate_id)
        return candidate_id if found is None else found.label

    def cell(self, key: str) -> CellInfo:
        return next(cell for cell in self.cells if cell.key == key)

    def cell_label(self, key: str) -> str:
        """The cell for people, or its key where the campaign has no such cell."""
        return next((cell.label for cell in self.cells if cell.key == key), key)

    @property
    def temperatures(self) -> tuple[float | None, ...]:
        return tuple(dict.fromkeys(cell.temperature for cell in self.cells))

    def cells_at(self, temperature: float | None) -> tuple[CellInfo, ...]:
        """Cells of one temperature, quietest level first."""
        return tuple(cell for cell in self.cells if cell.temperature == temperature)
