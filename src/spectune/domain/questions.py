"""What a server is asked before it is measured, and how: alone, in company, and under the workload's sampling."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Protocol

from spectune.domain.finding import Answer, ProbeRun
from spectune.domain.ports import LoadGenerator, Target
from spectune.domain.workload import Prompt

MANY = 4
"""Requests in flight at least, while sampled prompts and tasks are asked."""


ALONE_S = 60.0
"""Once asking one at a time has taken so long, the rest of the probes is left out; a slow server has fewer compared."""

FEWEST = 8
"""Probes that are asked however slow the server is."""


class Exam(Protocol):
    """Tasks whose answers are marked."""

    @property
    def prompts(self) -> tuple[Prompt, ...]: ...

    def mark(self, answers: Sequence[Answer]) -> tuple[Answer, ...]:
        """The same answers with their scores.

        Raises:
            InputError: the user's checker does not work.
        """
        ...


@dataclass(frozen=True, slots=True)
class Questions:
    """Attributes:
    probes: prompts whose greedy answers are compared with the baseline's; never among the measured ones.
    sampled: prompts that are asked over and over under the workload's sampling; none where it does not sample.
    exams: tasks with right and wrong answers, where the campaign asks for them.
    """

    probes: tuple[Prompt, ...]
    sampled: tuple[Prompt, ...] = ()
    exams: tuple[Exam, ...] = ()

    def put_to(
        self, load: LoadGenerator, target: Target, users: int, monotonic: Callable[[], float]
    ) -> tuple[ProbeRun, ...]:
        """The answers: of one user at a time, then of so many users as the largest level has, since some faults show
        in company only; then the sampled ones and the tasks. A server that hangs is not asked on."""
        alone: list[Answer] = []
        end = monotonic() + ALONE_S
        for prompt in self.probes:
            alone += load.ask(target, (prompt,), concurrency=1)
            if len(alone) > 1 and all(answer.error for answer in alone[-2:]):
                # It would be waited for at every probe.
                return (ProbeRun(1, tuple(alone)),)
            if len(alone) >= FEWEST and monotonic() >= end:
                break
        probes = self.probes[: len(alone)]
        return (ProbeRun(1, tuple(alone)), *self._together(load, target, users, probes))

    def _together(
        self, load: LoadGenerator, target: Target, users: int, probes: tuple[Prompt, ...]
    ) -> Iterator[ProbeRun]:
        if users > 1:
            # Where there are fewer probes than users, some are sent twice, so that the batch is as large as it will be.
            crowd = tuple(islice(cycle(probes), max(users, len(probes))))
            yield ProbeRun(users, load.ask(target, crowd, concurrency=users)[: len(probes)])
        many = max(users, MANY)
        if self.sampled:
            yield ProbeRun(many, load.ask(target, self.sampled, concurrency=many))
        for exam in self.exams:
            yield ProbeRun(many, exam.mark(load.ask(target, exam.prompts, concurrency=many)))
