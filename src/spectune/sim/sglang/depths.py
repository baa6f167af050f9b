"""Which depth a batch drafts at, and how well its drafts are accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from spectune.sim.model import Draft, Speeds
from spectune.sim.sglang.faults import Faults
from spectune.sim.sglang.job import Job

EMA = 0.2
DEAD_HEAD = 0.02
"""Conditional acceptance of a head that does not belong to its model."""
UPDATE_EVERY = 5
"""Decode steps between two looks at the depth."""


class Line(Protocol):
    """Takes a line for the scheduler's log."""

    def __call__(self, text: str) -> None: ...


class Depths:
    """Static depth, or SGLang's adaptive one: per batch size the candidate that pays best at the acceptance seen."""

    def __init__(
        self,
        draft: Draft,
        adaptive: Mapping[int, tuple[int, ...]] | None,
        speeds: Speeds,
        faults: Faults,
        say: Line,
    ) -> None:
        self.draft = self.asked = draft
        self._adaptive, self._speeds, self._faults, self._say = adaptive, speeds, faults, say
        self._ema: float | None = None
        self._steps = 0
        if adaptive is not None:
            union = sorted({depth for depths in adaptive.values() for depth in depths})
            say(f"AdaptiveSpeculativeParams initialized: steps={draft.depth}, candidate_steps={union}")

    def choose(self, batch: int) -> Draft:
        """The draft for the next step of so many requests."""
        self._steps += 1
        if self._adaptive is None or self._steps % UPDATE_EVERY:
            return self.draft
        keys = [key for key in self._adaptive if key <= batch] or [min(self._adaptive)]
        best = max(self._adaptive[max(keys)], key=lambda depth: self._worth(batch, depth))
        if best != self.draft.depth:
            seen = f"{self._ema or 0.0:.2f}"
            self._say(f"Adaptive spec params updated: steps {self.draft.depth} -> {best} (ema_accept_len={seen})")
            self.draft = Draft(best)
        return self.draft

    def observe(self, batch: int, accepted: int) -> None:
        """Note the accepted drafts of one step."""
        if self._adaptive is None or not batch or not self.draft.depth:
            return
        seen = accepted / batch / self.draft.depth
        self._ema = seen if self._ema is None else (1 - EMA) * self._ema + EMA * seen

    def chances(self, job: Job, draft: Draft) -> Sequence[float]:
        """Conditional acceptance of a request's drafts."""
        if job.chances is None or job.chances[0] != draft:
            wanted = job.wanted
            found = self._speeds.acceptance(draft, wanted.domain, wanted.temperature, wanted.looping)
            if "draft-not-loaded" in self._faults:
                found = (0.0,) * draft.depth
            elif "dead-head" in self._faults:
                found = (DEAD_HEAD,) * draft.depth
            job.chances = (draft, found)
        return job.chances[1]

    def _worth(self, batch: int, depth: int) -> float:
        share = 0.6 if self._ema is None else min(0.99, self._ema)
        tokens = sum(share**position for position in range(depth + 1))
        return tokens / self._speeds.step_seconds(batch, depth)
