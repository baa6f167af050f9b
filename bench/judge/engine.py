"""Requests as the simulated engine would serve them, without a server: a campaign of an hour in a second."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.judge.machine import DOMAINS, TOKENS, Machine, record
from spectune.domain.measurement import RequestRecord
from spectune.domain.workload import Cell
from spectune.sim.model import Speeds

Floats = NDArray[np.float64]
_POOL: Final = 20_000

TEXTS: Final = dict(zip(DOMAINS, ("chat", "code", "extraction"), strict=True))
"""Kind of text of the bench -> the profile's, which tells its acceptance."""


@dataclass
class EngineMachine(Machine):
    """A machine that runs the simulated engine: what differs between two requests of a kind is which drafts were
    accepted, step by step, and a cell holds as many as it has time for.

    Attributes:
        speeds: the profile's.
        depths: candidate id -> depth.
        gains: candidate id -> true log gain over the first one named in `depths`, overall: its steps are made as much
            faster or slower as that takes.
    """

    speeds: Speeds | None = None
    depths: Mapping[str, int] = field(default_factory=dict)
    gains: Mapping[str, float] = field(default_factory=dict)
    _factors: dict[str, float] = field(default_factory=dict)

    def _requests(self, identity: str, at: Cell, domain: str, hand: int, shift: float) -> list[RequestRecord]:
        step_s = self._step_s(identity, at) * math.exp(-shift) * self._factor(identity)
        fewest = (TOKENS - 1) / (self.depths[identity] + 1)
        most = math.ceil(self._seconds * at.level.users / len(DOMAINS) / (fewest * step_s)) + 1
        seconds = step_s * self.rng.choice(_steps(self._chances(identity, at, domain)), most)
        count = int(np.searchsorted(np.cumsum(seconds), self._seconds * at.level.users / len(DOMAINS)))
        return [record(f"{at.key} {domain} {hand}/{i}", domain, (TOKENS - 1) / float(seconds[i])) for i in range(count)]

    @property
    def _seconds(self) -> float:
        return self.trial_s / len(self.spec.cells)

    def _step_s(self, identity: str, at: Cell) -> float:
        assert self.speeds is not None
        return self.speeds.step_seconds(at.level.users, self.depths[identity], TOKENS * at.level.users)

    def _chances(self, identity: str, at: Cell, domain: str) -> tuple[float, ...]:
        assert self.speeds is not None
        return self.speeds.acceptance(self.depths[identity], TEXTS[domain], at.sampling.temperature or 0.0)

    def _factor(self, identity: str) -> float:
        """On the time of a candidate's steps, for its gain to be what it shall be."""
        if not self._factors:
            first, *_ = self.depths
            for name in self.depths:
                self._factors[name] = math.exp(
                    self._log_speed(name) - self._log_speed(first) - self.gains.get(name, 0.0)
                )
        return self._factors[identity]

    def _log_speed(self, identity: str) -> float:
        """Mean log speed of requests over cells and kinds of text."""
        steps = [
            math.log(self._step_s(identity, at)) + float(np.log(_steps(self._chances(identity, at, domain))).mean())
            for at in self.spec.cells
            for domain in DOMAINS
        ]
        return -float(np.mean(steps))


@lru_cache(maxsize=1000)
def _steps(chances: tuple[float, ...]) -> Floats:
    """Steps that requests take to their last token, drafts being accepted in turn until one is refused; many of them,
    always the same, to draw from."""
    needed, rng = TOKENS - 1, np.random.default_rng(7)
    left, steps = np.full(_POOL, needed), np.zeros(_POOL)
    while (going := left > 0).any():
        accepted = np.cumprod(rng.random((_POOL, len(chances))) < np.array(chances), axis=1).sum(axis=1)
        steps += going
        left = left - np.where(going, 1 + accepted, 0)
    return steps
