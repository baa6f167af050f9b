"""Known truths to search: published surfaces, a measured one, and random machines that behave as real ones do.

The random machines are written in other terms than `spectune.predict` uses (a roofline with its corner, experts that
wake up, a mixture of easy and hard text, captured graphs that end, each depth with a quirk of its own), so that the
model is tested on what it has to approximate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.metrics import MetricName
from spectune.domain.spec import BudgetSpec, CampaignSpec, ObjectiveSpec, SearchSpec, SpeculationSpace, WorkloadSpec
from spectune.domain.workload import Cell

CONVERSATION_WAIT = 0.15
"""Share of a sequence's time that prefill and gaps take, without speculation, on the random machines."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What a candidate really does in a cell.

    Attributes:
        per_user, aggregate: tok/s.
        shares: unconditional acceptance by position; empty where the surface does not tell.
        drafting: share of steps with a draft.
    """

    per_user: float
    aggregate: float
    shares: tuple[float, ...] = ()
    drafting: float = 1.0


@dataclass(frozen=True, slots=True)
class Surface:
    """One profile: a campaign and the truth behind it.

    Attributes:
        truth: candidate id -> cell key -> truth.
        max_running: candidate id -> requests that run at the same time.
        by_position: whether the engine counts acceptance by position.
    """

    name: str
    spec: CampaignSpec
    baseline: Candidate
    truth: Mapping[str, Mapping[str, Truth]]
    max_running: Mapping[str, int] = field(default_factory=dict)
    by_position: bool = True

    def score(self, candidate: str) -> float:
        """The objective: weighted mean of log speeds over cells."""
        weights = {cell.key: self.spec.weight(cell) for cell in self.spec.cells}
        aggregate = self.spec.objective.maximise is MetricName.AGGREGATE_SPEED
        logs = {
            key: float(np.log(cell.aggregate if aggregate else cell.per_user))
            for key, cell in self.truth[candidate].items()
        }
        return sum(weight * logs[key] for key, weight in weights.items()) / sum(weights.values())

    @property
    def best(self) -> float:
        return max(self.score(candidate) for candidate in self.truth)


def campaign(
    name: str,
    spaces: Sequence[SpeculationSpace],
    levels: Sequence[int],
    temperatures: Sequence[float],
    objective: ObjectiveSpec,
) -> CampaignSpec:
    return CampaignSpec(
        name,
        search=SearchSpec(speculation=tuple(spaces), schedules=False),
        workload=WorkloadSpec(concurrency=tuple(levels), temperatures=tuple(temperatures)),
        objective=objective,
        budget=BudgetSpec(minutes=1e6, trials=1000, confirm_pairs=0),
    )


def of_space(space: SpeculationSpace) -> list[Candidate]:
    return [
        Candidate(Speculation(space.method, k, draft_model=space.draft_model, settings=dict(space.settings)))
        for k in space.depths
    ]


def published(path: Path) -> list[Surface]:
    """sgl-project/sglang#22246. No run without speculation and no acceptance was published, so that the service starts
    at depth 1; levels with a missing figure are left out."""
    data = json.loads(path.read_text(encoding="utf-8"))
    found = []
    for name, rows in data["surfaces"].items():
        whole = [i for i in range(len(data["batch"])) if all(row[i] is not None for row in rows.values())]
        levels = [data["batch"][i] for i in whole]
        space = SpeculationSpace(Method.EAGLE, depths=tuple(int(k) for k in rows), draft_model="head")
        spec = campaign("published", [space], levels, [0.0], ObjectiveSpec())
        truth = {
            candidate.id: {
                cell.key: Truth(rows[str(k)][i] / level, rows[str(k)][i])
                for cell, i, level in zip(spec.cells, whole, levels, strict=True)
            }
            for k, candidate in zip(space.depths, of_space(space), strict=True)
        }
        found.append(Surface(name, spec, of_space(space)[0], truth))
    return found


def measured(path: Path) -> Surface:
    """SmolLM2-135M on llama.cpp, two cores; depth 0 was run first and last, and its mean is taken."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    depths = sorted({row["k"] for row in rows} - {0})
    space = SpeculationSpace(Method.DRAFT, depths=tuple(depths), draft_model="draft")
    levels = sorted({row["users"] for row in rows})
    temperatures = sorted({row["temperature"] for row in rows})
    spec = campaign("measured", [space], levels, temperatures, ObjectiveSpec())
    truth: dict[str, dict[str, Truth]] = {}
    for candidate, depth in zip([Candidate(), *of_space(space)], [0, *depths], strict=True):
        truth[candidate.id] = {}
        for cell in spec.cells:
            same = [
                row
                for row in rows
                if (row["k"], row["users"], row["temperature"]) == (depth, cell.level.users, cell.sampling.temperature)
            ]
            truth[candidate.id][cell.key] = Truth(
                float(np.mean([row["decode_tok_s_per_user"] for row in same])),
                float(np.mean([row["wall_tok_s"] for row in same])),
                tuple(same[-1]["accepted_per_position"]),
            )
    return Surface("SmolLM2-135M, llama.cpp", spec, Candidate(), truth)


@dataclass(frozen=True, slots=True)
class _Drafter:
    """How one method drafts: acceptance of easy and hard text by position, costs against a pass of the target."""

    space: SpeculationSpace
    easy: float
    hard: float
    fade: float
    drafting: float
    pass_cost: float
    extra: float
    quirk: np.ndarray

    def shares(self, depth: int, colder: float) -> np.ndarray:
        """Unconditional acceptance by position, easy and hard text counted as their steps come."""
        position = np.arange(depth)
        levels = (self.easy + colder, self.hard + colder)
        kinds = [np.cumprod(np.clip(level * self.fade**position, 0, 0.99)) for level in levels]
        steps = np.array([1 / (1 + self.drafting * kind.sum()) for kind in kinds])
        mixed: np.ndarray = (steps / steps.sum()) @ np.array(kinds)
        return mixed


KINDS = (
    "ordinary",
    "sharp optimum",
    "dead head",
    "capacity cliff",
    "crossover",
    "graph cliff",
    "text and head",
    "deep optimum",
)


def random_surfaces(count: int, seed: int = 7) -> list[Surface]:
    """Machines, a kind after another; the same seed gives the same machines."""
    kinds = [KINDS[i % len(KINDS)] for i in range(count)]
    return [
        _machine(kind, f"{kind} {i // len(KINDS) + 1}", np.random.default_rng([seed, i]))
        for i, kind in enumerate(kinds)
    ]


def _machine(kind: str, name: str, rng: np.random.Generator) -> Surface:
    levels = [(1, 4, 16), (1, 8, 32, 64), (1, 2, 4, 8), (2, 16, 64)][rng.integers(4)]
    temperatures = [(0.7,), (0.0, 0.8)][rng.integers(2)]
    drafters = _drafters(kind, rng)
    choices: list[dict[int | str, float]] = [{}, {levels[0]: 3.0, levels[1]: 1.0}, {levels[-1]: 2.0, levels[0]: 1.0}]
    weights = choices[rng.integers(3)]
    objective = ObjectiveSpec(weights=weights)
    if kind == "capacity cliff":
        objective = ObjectiveSpec(maximise=MetricName.AGGREGATE_SPEED)
    spec = campaign("random", [drafter.space for drafter in drafters], levels, temperatures, objective)
    step = _step_cost(kind, rng)
    room = int(levels[-1] * rng.uniform(1.0, 1.3)) if kind == "capacity cliff" else 4096
    truth: dict[str, dict[str, Truth]] = {}
    running: dict[str, int] = {}
    for drafter in [None, *drafters]:
        candidates = [Candidate()] if drafter is None else of_space(drafter.space)
        for candidate in candidates:
            depth = candidate.speculation.depth
            running[candidate.id] = max(1, int(room * (1 - 0.09 * depth))) if room < 4096 else room
            truth[candidate.id] = {
                cell.key: _truth(drafter, depth, cell, running[candidate.id], step) for cell in spec.cells
            }
    return Surface(name, spec, Candidate(), truth, running, bool(rng.random() < 0.7))


@dataclass(frozen=True, slots=True)
class _Step:
    """The target's pass: seconds to read what is always read, to wake all experts, per token computed, per sequence."""

    memory: float
    experts: float
    woken: float
    compute: float
    row: float
    corner: float
    graph: int

    def seconds(self, batch: float, width: float) -> float:
        tokens = batch * (1 + width)
        read = self.memory + self.experts * (1 - (1 - self.woken) ** tokens)
        both = (read**self.corner + (self.compute * tokens) ** self.corner) ** (1 / self.corner)
        return float(both + self.row * batch) * (1.18 if tokens > self.graph else 1.0)


def _step_cost(kind: str, rng: np.random.Generator) -> _Step:
    memory = float(np.exp(rng.uniform(np.log(0.004), np.log(0.03))))
    mixture = rng.random() < 0.4
    knee = float(np.exp(rng.uniform(np.log(12), np.log(400))))
    if kind == "crossover":
        knee = float(rng.uniform(8, 40))
    if kind == "deep optimum":
        knee = float(rng.uniform(150, 600))
    return _Step(
        memory,
        memory * float(rng.uniform(0.5, 3)) if mixture else 0.0,
        float(rng.uniform(0.01, 0.06)),
        memory / knee,
        memory * float(np.exp(rng.uniform(np.log(0.001), np.log(0.02)))),
        float(rng.uniform(1.3, 4)),
        int(rng.choice([64, 128, 192])) if kind == "graph cliff" else 10**9,
    )


def _drafters(kind: str, rng: np.random.Generator) -> list[_Drafter]:
    depths = tuple(range(1, int(rng.integers(6, 10) if kind == "deep optimum" else rng.integers(5, 9))))
    easy, hard, fade = rng.uniform(0.75, 0.95), rng.uniform(0.35, 0.75), rng.uniform(0.9, 1.0)
    if kind == "dead head":
        easy, hard = rng.uniform(0.02, 0.25, 2)
    if kind == "sharp optimum":
        fade = rng.uniform(0.6, 0.8)
    if kind == "deep optimum":
        easy, hard, fade = rng.uniform(0.9, 0.97), rng.uniform(0.75, 0.9), rng.uniform(0.98, 1.0)
    method = [Method.MTP, Method.EAGLE3, Method.DRAFT][rng.integers(2 if kind == "deep optimum" else 3)]
    cost = rng.uniform(0.08, 0.3) if method is Method.DRAFT else rng.uniform(0.02, 0.12)
    model = None if method is Method.MTP else "draft"
    space = SpeculationSpace(method, depths=depths, draft_model=model)
    found = [_Drafter(space, easy, hard, fade, 1.0, cost, rng.uniform(0, 0.1), rng.normal(0, 0.008, 40))]
    if kind == "text and head":
        text = SpeculationSpace(Method.NGRAM, depths=(2, 4, 8, 12, 16))
        share, level = rng.uniform(0.15, 0.5), rng.uniform(0.75, 0.95)
        found.append(
            _Drafter(text, level, level - 0.3, 1.0, share, 0.001, rng.uniform(0, 0.04), rng.normal(0, 0.008, 40))
        )
    return found


def _truth(drafter: _Drafter | None, depth: int, cell: Cell, running: int, step: _Step) -> Truth:
    batch = float(min(cell.level.users, running))
    alone = step.seconds(batch, 0)
    wait = CONVERSATION_WAIT * alone
    if drafter is None:
        return Truth(1 / alone, batch / (alone + wait))
    shares = drafter.shares(depth, 0.0 if cell.sampling.temperature else 0.03)
    tokens = 1 + drafter.drafting * float(shares.sum())
    passes = drafter.drafting * depth
    drafting = step.memory * (drafter.extra + drafter.pass_cost * passes * (1 + 0.01 * batch))
    seconds = (step.seconds(batch, passes) + drafting) * float(np.exp(drafter.quirk[depth]))
    return Truth(tokens / seconds, batch / (seconds / tokens + wait), tuple(float(s) for s in shares), drafter.drafting)
