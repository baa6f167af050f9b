"""The two sides of every check: what was asked of a deployment, and what was observed of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spectune.domain.candidate import Candidate, Method
from spectune.domain.deployment import Evidence, Launch, ListenerOwner, Seen
from spectune.domain.finding import Answer
from spectune.domain.knobs import KnobValue
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Cell, LevelKind


@dataclass(frozen=True, slots=True)
class Asked:
    """What a trial wants of its deployment.

    Attributes:
        candidate: what is to run.
        baseline_candidate: the service as it is; what the candidate changes is judged more strictly.
        launch: the command line that was started.
        cells: what is to be measured.
        started_after: when the deploy began, seconds since the epoch.
        model: path or name of the model the service gives; "" when only the model id is known.
        longest_request: most tokens of one request, prompt and answer; None when unknown.
        engine: adapter name, picks the catalogue entries; "" takes those of every engine.
        baseline_warnings: the baseline's warning lines; None while they are not known.
    """

    candidate: Candidate
    baseline_candidate: Candidate
    launch: Launch
    cells: tuple[Cell, ...]
    started_after: float
    model: str = ""
    longest_request: int | None = None
    engine: str = ""
    baseline_warnings: tuple[str, ...] | None = None

    @property
    def speculates(self) -> bool:
        return self.candidate.speculation.method is not Method.NONE

    @property
    def is_baseline(self) -> bool:
        return self.candidate.id == self.baseline_candidate.id

    @property
    def settings(self) -> Mapping[str, KnobValue]:
        """Every setting the candidate names, by canonical knob name."""
        return {**self.candidate.speculation.settings, **self.candidate.knobs}

    @property
    def most_users(self) -> int:
        """Requests in flight at the largest closed-loop level; 0 where all levels are rates."""
        closed = (cell.level.users for cell in self.cells if cell.level.kind is LevelKind.CONCURRENCY)
        return max(closed, default=0)


@dataclass(frozen=True, slots=True)
class ProbeAnswers:
    """Greedy answers to the same probe prompts.

    Attributes:
        candidate: of the deployment under test.
        baseline: of the baseline; empty while they are not known (and for the baseline itself).
        floor: of the baseline, asked a second time: how much it differs from itself. None where this was not done.
        users: requests in flight while asking.
    """

    candidate: tuple[Answer, ...]
    baseline: tuple[Answer, ...] = ()
    floor: tuple[Answer, ...] | None = None
    users: int = 1


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known of a deployment at one stage.

    Attributes:
        evidence: raw.
        seen: what the engine adapter read from it.
        answers: probe answers, one entry per load they were asked at.
        cells: cell key -> what was measured.
    """

    evidence: Evidence
    seen: Seen
    answers: tuple[ProbeAnswers, ...] = ()
    cells: Mapping[str, MeasuredCell] = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        """Whether the launch's command line is known to be that of the process which answers."""
        return self.evidence.listener is ListenerOwner.OURS and self.evidence.exit is None

    @property
    def responds(self) -> bool:
        """Whether any page was answered, with whatever status."""
        return any(page.status != 0 for page in self.evidence.pages.values())
