"""Campaigns with chosen speeds, for the judge."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Capacity, Deployment, Hardware, Seen, Service
from spectune.domain.estimate import Estimate
from spectune.domain.events import CampaignOpened, Provenance
from spectune.domain.finding import Finding, Status, Verification
from spectune.domain.history import History
from spectune.domain.measurement import Doubt, Measurement, Outcome, Phase, RequestRecord, TokenSource
from spectune.domain.metrics import MetricName
from spectune.domain.spec import BudgetSpec, CampaignSpec, ConstraintSpec, ObjectiveSpec, WorkloadSpec
from spectune.domain.trial import MeasuredCell, Purpose, Trial, TrialState
from spectune.domain.verdict import Verdict
from spectune.domain.workload import WorkloadInfo

BASELINE = Candidate()
OK = Verification((Finding("serves", Status.OK, "yes", "yes"),))
Speed = Callable[[str, str, int], float]
"""(cell key, domain, number of the prompt) -> tok/s."""


def draft(depth: int) -> Candidate:
    return Candidate(Speculation(Method.DRAFT, depth))


def record(prompt: str, domain: str, speed: float, outcome: Outcome = Outcome.OK) -> RequestRecord:
    last = round(1000 / speed * 1e9)
    return RequestRecord(
        prompt, domain, outcome, Phase.STEADY, 0, 0, 0, last, last, 1001, TokenSource.USAGE, finish_reason="stop"
    )


@dataclass
class Lab:
    """Builds a history trial by trial; trials are a minute apart.

    Attributes:
        prompts: of a slice.
        begin: number of the first of them.
    """

    spec: CampaignSpec
    domains: tuple[str, ...] = ("chat", "code_edit")
    prompts: int = 6
    begin: int = 0
    history: History = field(init=False)

    def __post_init__(self) -> None:
        service = Service("llama.cpp", "/server", "/model", {}, {}, "127.0.0.1", 1, "m")
        provenance = Provenance("0", "0", Hardware("h", "cpu", 2, 1), WorkloadInfo("w", "0", 1, {}))
        self.history = History(CampaignOpened(0.0, self.spec, service, BASELINE, provenance))

    def cells(self, speed: Speed) -> dict[str, MeasuredCell]:
        return {
            cell.key: MeasuredCell(
                Measurement(cell, self._now, 10.0, {}, {}, {}, 1.0),
                tuple(
                    record(f"{cell.key} {domain} {i}", domain, speed(cell.key, domain, i))
                    for i in range(self.begin, self.begin + self.prompts)
                    for domain in self.domains
                ),
            )
            for cell in self.spec.cells
        }

    def trial(
        self,
        candidate: Candidate,
        purpose: Purpose,
        speed: Speed,
        *,
        state: TrialState = TrialState.VALID,
        state_reason: str = "",
        checked: Verification = OK,
        capacity: Capacity | None = None,
        cells: Mapping[str, MeasuredCell] | None = None,
    ) -> Trial:
        number = len(self.history.trials) + 1
        seen = Seen(capacity=capacity or Capacity())
        trial = Trial(
            number,
            1,
            candidate,
            purpose,
            "",
            self._now,
            state=state,
            state_reason=state_reason,
            deployment=Deployment((), {}, "", 1, self._now, 1.0, 0.0, seen),
            verification=checked,
            cells=self.cells(speed) if cells is None else cells,
            ended_at=self._now + 50,
        )
        self.history = replace(self.history, trials={**self.history.trials, number: trial})
        return trial

    def pair(self, left: Candidate, right: Candidate, left_speed: Speed, right_speed: Speed) -> tuple[Trial, Trial]:
        """Two trials measured side by side, at the same time."""
        one = self.trial(left, Purpose.CONFIRM, left_speed)
        other = self.trial(right, Purpose.CONFIRM, right_speed, cells=self.cells(right_speed))
        at = {key: replace(cell, measurement=one.cells[key].measurement) for key, cell in other.cells.items()}
        one, other = replace(one, beside=other.number), replace(other, beside=one.number, cells=at)
        trials = {**self.history.trials, one.number: one, other.number: other}
        self.history = replace(self.history, trials=trials)
        return one, other

    def decided(self, trial: Trial, verdict: Verdict) -> None:
        self.history = replace(
            self.history, trials={**self.history.trials, trial.number: replace(trial, verdict=verdict)}
        )

    @property
    def _now(self) -> float:
        return 1_000_000.0 + 60.0 * len(self.history.trials)


class Noisy:
    """Speeds that scatter: per request, per deployment, and per prompt of a candidate."""

    def __init__(self, seed: int, request: float = 0.02, deployment: float = 0.005) -> None:
        self._rng = np.random.default_rng(seed)
        self._request, self._deployment = request, deployment

    def __call__(self, gain: float = 0.0, by_domain: Mapping[str, float] | None = None) -> Speed:
        shift = math.log1p(gain) + self._deployment * self._rng.standard_normal()

        def speed(cell: str, domain: str, prompt: int) -> float:
            extra = math.log1p((by_domain or {}).get(domain, 0.0))
            return 40 * (1 + prompt / 10) * math.exp(shift + extra + self._request * self._rng.standard_normal())

        return speed


def make_spec(**changes: object) -> CampaignSpec:
    """A campaign at one and four users; keyword arguments go to the section that has them."""
    parts = {
        "workload": WorkloadSpec(concurrency=(1, 4), temperatures=(0.0,)),
        "objective": ObjectiveSpec(),
        "constraints": ConstraintSpec(),
        "budget": BudgetSpec(confirm_pairs=4),
    }
    for name, value in changes.items():
        owner = next(key for key, part in parts.items() if hasattr(part, name))
        parts[owner] = replace(parts[owner], **{name: value})  # type: ignore[type-var]
    return CampaignSpec("test", **parts)  # type: ignore[arg-type]


def flat(speed: float = 40.0) -> Speed:
    return lambda cell, domain, prompt: speed


def aggregate_cells(lab: Lab, value: float, half: float, doubts: Sequence[Doubt] = ()) -> dict[str, MeasuredCell]:
    """Cells that have aggregate and per-user speed and no records."""
    estimate = Estimate(value, value * (1 - half), value * (1 + half), 5)
    metrics = {MetricName.AGGREGATE_SPEED: estimate, MetricName.PER_USER_SPEED: estimate}
    return {
        key: MeasuredCell(replace(cell.measurement, metrics=metrics, doubts=tuple(doubts)), ())
        for key, cell in lab.cells(flat()).items()
    }
