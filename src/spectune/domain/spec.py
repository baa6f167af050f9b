"""The specification of a campaign. The campaign file is checked against these very types, bounds included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from spectune.domain.candidate import Method
from spectune.domain.knobs import KnobValue
from spectune.domain.metrics import MetricName
from spectune.domain.workload import Arrival, Cell, Level, LevelKind, Sampling

_STRICT = ConfigDict(extra="forbid")

PositiveInt = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """The server to tune, as it is today."""

    __pydantic_config__ = _STRICT

    engine: Annotated[Literal["llama.cpp", "sglang"], Field(description="Which inference server.")] = "llama.cpp"
    binary: Annotated[
        str,
        Field(
            description="Server program: a path, a name on PATH, or 'auto' (llama.cpp: PATH, else built once from "
            "source). For engines in Python: the Python of the environment that they are installed in."
        ),
    ] = "auto"
    entry: Annotated[
        str,
        Field(description="Words between program and flags, like '-m sglang.launch_server'; empty for the usual ones."),
    ] = ""
    model: Annotated[str, Field(description="Path of the model, or 'builtin' for SmolLM2-135M-Instruct.")] = "builtin"
    args: Annotated[
        Mapping[str, KnobValue],
        Field(
            description="Today's settings in the engine's own spelling, without leading dashes; true for a bare flag."
        ),
    ] = field(default_factory=dict)
    env: Annotated[Mapping[str, str], Field(description="Environment variables of the server.")] = field(
        default_factory=dict
    )
    host: Annotated[str, Field(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="Port of the trial servers; 0 takes a free one.")] = 0
    ready_timeout_s: Annotated[
        PositiveFloat, Field(description="Give up on a start after so many seconds without a new log line.")
    ] = 600.0


@dataclass(frozen=True, slots=True)
class SpeculationSpace:
    """One speculation method to try."""

    __pydantic_config__ = _STRICT

    method: Annotated[Method, Field(description="How drafts are made.")]
    depths: Annotated[
        tuple[PositiveInt, ...],
        Field(min_length=1, description="Depths k to consider, tried from small to large while it pays."),
    ]
    draft_model: Annotated[
        str | None,
        Field(description="Path of the draft model, or 'builtin' for the one made for SmolLM2-135M-Instruct."),
    ] = None
    settings: Annotated[
        Mapping[str, KnobValue], Field(description="Further settings of the method in the engine's spelling.")
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CandidateSpec:
    """One candidate, spelled out."""

    __pydantic_config__ = _STRICT

    method: Annotated[Method, Field(description="How drafts are made; 'none' for none.")] = Method.NONE
    depth: Annotated[int, Field(ge=0, description="Depth k; 0 exactly with method 'none'.")] = 0
    topk: Annotated[PositiveInt, Field(description="Branches per drafted position; 1 is a chain.")] = 1
    draft_model: Annotated[str | None, Field(description="As in search.speculation.")] = None
    settings: Annotated[Mapping[str, KnobValue], Field(description="Settings of the method.")] = field(
        default_factory=dict
    )
    knobs: Annotated[Mapping[str, KnobValue], Field(description="Other settings; 'env.NAME' is a variable.")] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class SearchSpec:
    """What may be changed."""

    __pydantic_config__ = _STRICT

    speculation: Annotated[tuple[SpeculationSpace, ...], Field(description="Speculation methods to try.")] = ()
    knobs: Annotated[
        Mapping[str, tuple[KnobValue, ...]],
        Field(
            description="Other settings: flag -> values to try. Each is tried on the incumbent, one at a time. "
            "'env.NAME' is a variable of the server's environment."
        ),
    ] = field(default_factory=dict)
    candidates: Annotated[
        tuple[CandidateSpec, ...], Field(description="Candidates spelled out; all are tried, before the methods.")
    ] = ()


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """What is asked of the server."""

    __pydantic_config__ = _STRICT

    source: Annotated[
        str,
        Field(
            description="'builtin', 'agentic', 'synthetic:...', 'repetitive', or a file of conversations or a trace; "
            "docs/workloads.md lists them all."
        ),
    ] = "builtin"
    domains: Annotated[tuple[str, ...], Field(description="Take only these domains; empty takes all.")] = ()
    max_tokens: Annotated[PositiveInt | None, Field(description="Overrides the cap on every answer.")] = None
    concurrency: Annotated[tuple[PositiveInt, ...], Field(description="Load levels: requests in flight.")] = (1, 2, 4)
    rates: Annotated[
        tuple[PositiveFloat, ...],
        Field(
            description="Load levels of an open loop: requests per second; with arrival 'trace', speeds of the trace."
        ),
    ] = ()
    arrival: Annotated[Arrival, Field(description="How requests arrive at those rates.")] = Arrival.POISSON
    burstiness: Annotated[
        PositiveFloat,
        Field(description="Of gamma arrivals: squared coefficient of variation of the gaps; 1 is Poisson."),
    ] = 1.0
    temperatures: Annotated[
        tuple[Annotated[float, Field(ge=0, le=5)] | None, ...],
        Field(min_length=1, description="Sampling temperatures to measure at; null leaves the server's default."),
    ] = (0.0, 0.7)
    top_p: Annotated[
        float | None, Field(gt=0, le=1, description="Nucleus sampling; null leaves the server's default.")
    ] = None
    ignore_eos: Annotated[
        bool, Field(description="Force full-length answers. Flatters speculation; marked in the report.")
    ] = False


@dataclass(frozen=True, slots=True)
class ObjectiveSpec:
    """What is to be made best."""

    __pydantic_config__ = _STRICT

    maximise: Annotated[
        Literal[MetricName.PER_USER_SPEED, MetricName.AGGREGATE_SPEED],
        Field(description="Metric that ranks candidates."),
    ] = MetricName.PER_USER_SPEED
    weights: Annotated[
        Mapping[int, Annotated[float, Field(ge=0)]],
        Field(description="Concurrency -> weight of that level; empty weighs all levels alike."),
    ] = field(default_factory=dict)
    min_gain: Annotated[
        float, Field(ge=0, lt=1, description="A smaller gain than this is not worth a change (0.03 = 3 %).")
    ] = 0.03
    confidence: Annotated[float, Field(gt=0.5, lt=1, description="Confidence of intervals and verdicts.")] = 0.95


@dataclass(frozen=True, slots=True)
class ConstraintSpec:
    """What a winner must not break. Null: no such floor."""

    __pydantic_config__ = _STRICT

    min_kv_tokens: Annotated[PositiveInt | None, Field(description="Fewest tokens of KV room.")] = None
    min_running_requests: Annotated[PositiveInt | None, Field(description="Fewest requests that run at a time.")] = None
    max_slowdown: Annotated[
        float | None,
        Field(ge=0, lt=1, description="Most that any single level may lose against the baseline (0.1 = 10 %)."),
    ] = None


@dataclass(frozen=True, slots=True)
class BudgetSpec:
    """How much may be spent."""

    __pydantic_config__ = _STRICT

    minutes: Annotated[
        PositiveFloat,
        Field(description="Explore for so long, confirmation included; what is found last is still confirmed."),
    ] = 60.0
    trials: Annotated[
        PositiveInt, Field(description="Most launches of the server, baseline and confirmation included.")
    ] = 40
    cell_seconds: Annotated[
        PositiveFloat, Field(description="Most seconds of measuring at one level and temperature.")
    ] = 30.0
    precision: Annotated[
        float,
        Field(gt=0, lt=1, description="Stop a measurement early once its interval is this narrow (0.02 = +-2 %)."),
    ] = 0.02
    confirm_pairs: Annotated[
        int, Field(ge=0, description="Interleaved re-measurements (A B B A ...) of the winner against the baseline.")
    ] = 4
    side_by_side: Annotated[
        bool | None,
        Field(
            description="Confirm with winner and baseline on two servers that take turns of seconds, which cancels the "
            "machine's noise. Needs memory for both; null does so where two fit that hold no GPU."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class CampaignSpec:
    """A whole campaign."""

    __pydantic_config__ = _STRICT

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="Name in ledger and report.")]
    service: ServiceSpec = field(default_factory=ServiceSpec)
    search: SearchSpec = field(default_factory=SearchSpec)
    workload: WorkloadSpec = field(default_factory=WorkloadSpec)
    objective: ObjectiveSpec = field(default_factory=ObjectiveSpec)
    constraints: ConstraintSpec = field(default_factory=ConstraintSpec)
    budget: BudgetSpec = field(default_factory=BudgetSpec)
    seed: Annotated[int, Field(ge=0, description="Seeds prompt order and sampling; arms share it.")] = 1

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every (level, temperature) to measure on each deployment, closed loops first, quietest level first."""
        load = self.workload
        closed = [Level(users) for users in sorted(set(load.concurrency))]
        rates = sorted(set(load.rates))
        return tuple(
            Cell(level, Sampling(temperature, load.top_p, self.seed, load.ignore_eos))
            for level in closed + [Level(rate, LevelKind.RATE, load.arrival, load.burstiness) for rate in rates]
            for temperature in dict.fromkeys(load.temperatures)
        )

    def weight(self, cell: Cell) -> float:
        """The objective's weight of a cell; the cells of a level share its weight. Not normalised."""
        if not self.objective.weights:
            return 1.0
        if cell.level.kind is LevelKind.RATE:
            return 0.0
        return self.objective.weights.get(cell.level.users, 0.0)
