"""What the loop works with: the rooms behind their ports, and the record of what happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spectune.domain.deployment import Service
from spectune.domain.events import Event
from spectune.domain.history import History
from spectune.domain.ports import (
    Clock,
    Deployer,
    Engine,
    Judge,
    Ledger,
    LoadGenerator,
    Observer,
    PromptSource,
    Strategy,
    Verifier,
)
from spectune.domain.questions import Exam
from spectune.domain.workload import Prompt


@dataclass(frozen=True, slots=True)
class Rooms:
    """Everything the loop works with; assemble chooses the concrete ones.

    Attributes:
        probes, sampled, exams: what is asked before measuring, see Questions.
        beside: the service once more, on another free port of the host.
        load_average: 1-minute load average of the host.
        gpu_memory: bytes in use on the service's GPUs together; None where there is none or it can't be told.
        version: spectune's own.
    """

    engine: Engine
    deployer: Deployer
    load: LoadGenerator
    prompts: PromptSource
    probes: tuple[Prompt, ...]
    verifier: Verifier
    strategy: Strategy
    judge: Judge
    ledger: Ledger
    clock: Clock
    observer: Observer
    beside: Callable[[Service], Service]
    load_average: Callable[[], float]
    version: str
    gpu_memory: Callable[[], int | None] = lambda: None
    sampled: tuple[Prompt, ...] = ()
    exams: tuple[Exam, ...] = ()


class Record:
    """A campaign's events: in the ledger first, then in the history that every next step is taken from."""

    def __init__(self, ledger: Ledger, observer: Observer, campaign: str) -> None:
        self._ledger = ledger
        self._observer = observer
        self._campaign = campaign
        self.history = History.of(ledger.events(campaign))

    def add(self, event: Event) -> None:
        """Raises LedgerError."""
        self._ledger.append(self._campaign, event)
        self.history = self.history.then(event)
        self._observer.event(event, self.history)
