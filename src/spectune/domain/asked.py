"""What a deployment is checked against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spectune.domain.candidate import Candidate, Method
from spectune.domain.deployment import Capacity, Launch, Service
from spectune.domain.finding import ProbeRun
from spectune.domain.knobs import KnobValue, Settings
from spectune.domain.workload import Cell, LevelKind


@dataclass(frozen=True, slots=True)
class Asked:
    """What a trial wants of its deployment.

    Attributes:
        service: what is tuned; its model is "" when only the model id is known, its engine "" when unknown.
        candidate: what is to run.
        baseline: the service as it is; what the candidate changes is judged more strictly.
        launch: the command line that was started.
        cells: what is to be measured.
        started_after: when the deploy began, seconds since the epoch.
        tokens_per_request: most tokens of one request, prompt and answer; None when unknown.
        baseline_probes: the baseline's greedy answers, one deployment a tuple with a run for every number of users;
            two deployments tell how much the baseline differs from itself.
        baseline_warnings: the baseline's warning lines; None while they are not known.
        baseline_capacity: the baseline's room; None while it is not known.
        baseline_settings: the baseline's effective settings; None while they are not known.
    """

    service: Service
    candidate: Candidate
    baseline: Candidate
    launch: Launch
    cells: tuple[Cell, ...]
    started_after: float
    tokens_per_request: int | None = None
    baseline_probes: tuple[tuple[ProbeRun, ...], ...] = ()
    baseline_warnings: tuple[str, ...] | None = None
    baseline_capacity: Capacity | None = None
    baseline_settings: Settings | None = None

    @property
    def speculates(self) -> bool:
        return self.candidate.speculation.method is not Method.NONE

    @property
    def is_baseline(self) -> bool:
        return self.candidate.id == self.baseline.id

    @property
    def settings(self) -> Mapping[str, KnobValue]:
        """Every setting the candidate names, by canonical knob name."""
        return {**self.candidate.speculation.settings, **self.candidate.knobs}

    @property
    def most_users(self) -> int:
        """Requests in flight at the largest closed-loop level; 0 where all levels are rates."""
        closed = (cell.level.users for cell in self.cells if cell.level.kind is LevelKind.CONCURRENCY)
        return max(closed, default=0)
