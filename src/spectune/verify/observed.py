"""What was observed of a deployment, the other side of every check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spectune.domain.deployment import Evidence, ListenerOwner, Seen
from spectune.domain.finding import Answer
from spectune.domain.trial import MeasuredCell


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
class Left:
    """What is in use on the machine around a deployment; None where it can't be told.

    Attributes:
        gpu_before, gpu_after: memory in use on all GPUs together before the start and after the stop, bytes.
    """

    gpu_before: int | None = None
    gpu_after: int | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known of a deployment at one stage.

    Attributes:
        evidence: raw.
        seen: what the engine adapter read from it.
        answers: greedy probe answers, one entry per load they were asked at.
        cells: cell key -> what was measured.
        left: after the stop; None before it.
        sampled: answers to the prompts that are asked over and over under the workload's sampling.
        tasks: answers to tasks, with their scores.
    """

    evidence: Evidence
    seen: Seen
    answers: tuple[ProbeAnswers, ...] = ()
    cells: Mapping[str, MeasuredCell] = field(default_factory=dict)
    left: Left | None = None
    sampled: tuple[Answer, ...] = ()
    tasks: tuple[Answer, ...] = ()

    @property
    def ours(self) -> bool:
        """Whether the launch's command line is known to be that of the process which answers."""
        return self.evidence.listener is ListenerOwner.OURS and self.evidence.exit is None

    @property
    def responds(self) -> bool:
        """Whether any page was answered, with whatever status."""
        return any(page.status != 0 for page in self.evidence.pages.values())
