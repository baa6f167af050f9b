"""The specification of a campaign. The campaign file is checked against these very types, bounds included."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from spectune.domain.candidate import Method
from spectune.domain.drain import DrainSpec, Span
from spectune.domain.knobs import KnobValue
from spectune.domain.measurement import Slo
from spectune.domain.metrics import MetricName
from spectune.domain.tasks import TaskSpec
from spectune.domain.workload import Arrival, Cell, Level, LevelKind, Sampling

_STRICT = ConfigDict(extra="forbid")

_LEVELS = r"^(?P<low>\d+(\.\d+)?)(-(?P<high>\d+(\.\d+)?))?(?P<unit>/s|x|)$"
"""Spelling of one load level or a range of them."""

PositiveInt = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0)]


def _level_key(value: object) -> int | str:
    """A key of levels in its one spelling: an int for a number of users, text for all else."""
    text = str(value).strip()
    found = re.fullmatch(_LEVELS, text)
    bounds = (float(found["low"]), float(found["high"] or found["low"])) if found else (0.0, 0.0)
    if found is None or isinstance(value, bool) or not 0 < bounds[0] <= bounds[1]:
        raise PydanticCustomError(
            "level",
            "should name load levels: users (8, or '1-4'), requests per second ('2.5/s') or speed of a trace ('2x')",
        )
    return int(text) if text.isdecimal() else text


LevelKey = Annotated[int | str, BeforeValidator(_level_key)]
"""Names load levels: users (8), a range of them ("1-4"), rates ("2.5/s", "1-4/s"), speeds of a trace ("2x")."""


def is_named(key: int | str, level: Level) -> bool:
    """Whether a key of `objective.weights` names a level. False for text that names none at all."""
    found = re.fullmatch(_LEVELS, str(key))
    if found is None:
        return False
    unit = "" if level.kind is LevelKind.CONCURRENCY else "x" if level.arrival is Arrival.TRACE else "/s"
    low, high = float(found["low"]), float(found["high"] or found["low"])
    return found["unit"] == unit and low <= level.value <= high


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """The server to tune, as it is today."""

    __pydantic_config__ = _STRICT

    engine: Annotated[Literal["llama.cpp", "sglang", "vllm"], Field(description="Which inference server.")] = (
        "llama.cpp"
    )
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
    remote: Annotated[
        str, Field(description="Machine that the service runs on, as `ssh NAME` calls it; empty for this one.")
    ] = ""
    unit: Annotated[
        str,
        Field(
            description="systemd unit to tune in place of servers of spectune's own; 'user:NAME' for one of the "
            "login's own service manager. It is put back at the end."
        ),
    ] = ""
    measure_from: Annotated[
        str,
        Field(
            pattern=r"^(here|host(:/[^\x00\n]+)?)$",
            description="Where the load comes from: 'here', or 'host' for the machine that the unit is on, where the "
            "network between would disturb. spectune sends its load generator there; 'host:/path/to/python' names a "
            "Python there that has the same spectune installed.",
        ),
    ] = "here"
    edit_unit: Annotated[
        bool,
        Field(
            description="Promote by changing the flags in the unit file itself; false writes a drop-in beside it. "
            "Trials always use a drop-in."
        ),
    ] = False
    drain: DrainSpec = field(default_factory=DrainSpec)


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
    schedules: Annotated[
        bool,
        Field(
            description="Where load levels want different depths, also try one candidate that changes its depth with "
            "the load (SGLang and vLLM can)."
        ),
    ] = True
    priors: Annotated[
        bool,
        Field(
            description="Let earlier campaigns of the same engine, model, machine and settings say where to begin and "
            "what is hopeless ('guided' only). They never decide: whatever may win is measured anew."
        ),
    ] = True
    strategy: Annotated[
        Literal["guided", "staged", "incremental", "grid", "random", "tpe"],
        Field(
            description="Order of trying. 'guided' forecasts every depth from the first trials and skips what can't "
            "win; 'staged' goes deeper while it pays; the others are there for comparison."
        ),
    ] = "guided"

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to try."""
        return not (self.speculation or self.knobs or self.candidates)


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
        Literal[MetricName.PER_USER_SPEED, MetricName.AGGREGATE_SPEED, MetricName.GOODPUT],
        Field(
            description="Metric that ranks candidates. 'goodput_requests_s' counts requests served within slo_ttft_s "
            "and slo_tpot_s."
        ),
    ] = MetricName.PER_USER_SPEED
    per_gpu: Annotated[
        bool, Field(description="Divide the metric by the number of GPUs, where candidates differ in it.")
    ] = False
    slo_ttft_s: Annotated[
        PositiveFloat | None, Field(description="Goodput: most seconds to a request's first token; null: no bound.")
    ] = None
    slo_tpot_s: Annotated[
        PositiveFloat | None, Field(description="Goodput: most seconds per output token; null: no bound.")
    ] = None
    weights: Annotated[
        Mapping[LevelKey, Annotated[float, Field(ge=0)]],
        Field(
            description="Load -> its weight, for instance its share of the time: users (8, or '1-4' for every level "
            "from 1 to 4, which share the weight), requests per second ('2.5/s', '1-4/s'), speed of a trace ('2x'). "
            "Levels not named count nothing; empty weighs all levels alike."
        ),
    ] = field(default_factory=dict)
    min_gain: Annotated[
        float,
        Field(
            ge=0,
            lt=1,
            description="What a change should bring: one that provably brings less is not made (0.03 = 3 %).",
        ),
    ] = 0.03
    confidence: Annotated[float, Field(gt=0.5, lt=1, description="Confidence of intervals and verdicts.")] = 0.95

    @property
    def slo(self) -> Slo | None:
        """The bounds that goodput counts by; None where there is none."""
        return None if self.slo_ttft_s is None and self.slo_tpot_s is None else Slo(self.slo_ttft_s, self.slo_tpot_s)


@dataclass(frozen=True, slots=True)
class ConstraintSpec:
    """What a winner must not break. Null or empty: no such limit."""

    __pydantic_config__ = _STRICT

    min_kv_tokens: Annotated[PositiveInt | None, Field(description="Fewest tokens of KV room.")] = None
    min_running_requests: Annotated[PositiveInt | None, Field(description="Fewest requests that run at a time.")] = None
    max_slowdown: Annotated[
        float | None,
        Field(
            ge=0,
            lt=1,
            description="Most that any single level may provably lose against the baseline in the objective's metric "
            "(0.1 = 10 %).",
        ),
    ] = None
    min_aggregate_tok_s: Annotated[
        Mapping[LevelKey, PositiveFloat],
        Field(description="Load, spelled as in objective.weights -> fewest tok/s of all its users together."),
    ] = field(default_factory=dict)
    min_aggregate_share: Annotated[
        float | None,
        Field(gt=0, le=1, description="Least share of the baseline's aggregate speed at any level (0.95 = 95 %)."),
    ] = None
    max_ttft_p99_s: Annotated[
        PositiveFloat | None,
        Field(description="Most seconds to the first token for 99 of 100 requests, at any level."),
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
        int, Field(ge=0, description="Interleaved re-measurements (B A A B ...) of the winner against the baseline.")
    ] = 4
    between: Annotated[
        Span | None,
        Field(
            description="Maintenance window of every day, '01:00-05:00' in this machine's time zone: outside it the "
            "campaign pauses, and the service runs as before. null: at any time."
        ),
    ] = None
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
    tasks: TaskSpec = field(default_factory=TaskSpec)
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
        """The objective's weight of a cell; the levels of a range share its weight, so do the cells of a level. Not
        normalised."""
        weights = self.objective.weights
        if not weights:
            return 1.0
        levels = {other.level for other in self.cells}
        found = 0.0
        for key, weight in weights.items():
            named = [level for level in levels if is_named(key, level)]
            found += weight / len(named) if cell.level in named else 0.0
        return found
