"""Which depth is best at which level, and above which level speculation loses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from spectune.domain.candidate import Candidate
from spectune.domain.estimate import Ratio
from spectune.domain.history import History
from spectune.domain.metrics import MetricName
from spectune.domain.spec import CampaignSpec
from spectune.predict.speed import SpeedForecaster

SPEED: Final = MetricName.PER_USER_SPEED


@dataclass(frozen=True, slots=True)
class AtLevel:
    """The best candidate at one closed-loop level.

    Attributes:
        users: the level, measured or not.
        best: of the candidates asked about.
        gain: its forecast per-user speed against the baseline.
    """

    users: int
    best: Candidate
    gain: Ratio


@dataclass(frozen=True, slots=True)
class Crossover:
    """The number of users above which the baseline is faster than every candidate.

    Attributes:
        users: the estimate; None where it lies outside the levels asked about.
        low, high: levels between which it lies at the confidence of the gains; None where open.
    """

    users: float | None
    low: float | None
    high: float | None


def by_level(
    forecaster: SpeedForecaster,
    spec: CampaignSpec,
    history: History,
    candidates: Iterable[Candidate],
    levels: Iterable[int],
) -> tuple[AtLevel, ...]:
    """The best candidate for a user at each level, quietest first; levels about which nothing can be said are absent.

    The levels need not have been measured. Sampling temperatures count alike.
    """
    asked = {candidate.id: candidate for candidate in candidates}
    there = replace(spec, workload=replace(spec.workload, concurrency=tuple(sorted(set(levels))), rates=()))
    made = forecaster.by_level(there, history, asked.values())
    found = []
    for level in dict.fromkeys(cell.level for cell in there.cells):
        gains = {name: told[level][SPEED] for name, told in made.items() if SPEED in told.get(level, {})}
        if gains:
            best = max(gains, key=lambda name: gains[name].value)
            found.append(AtLevel(level.users, asked[best], gains[best]))
    return tuple(found)


def crossover(levels: Sequence[AtLevel]) -> Crossover:
    """Where the gain of the best candidate falls through nothing, between levels straight in the logarithms.

    Args:
        levels: as from `by_level`, of candidates that speculate, against a baseline that does not.
    """
    value, low, high = ([getattr(at.gain, name) for at in levels] for name in ("value", "low", "high"))
    users = [at.users for at in levels]
    return Crossover(_falls(users, value), _falls(users, low), _falls(users, high))


def _falls(users: Sequence[int], gains: Sequence[float]) -> float | None:
    """The last level at which the gain falls through 1."""
    crossed = None
    for i in range(1, len(users)):
        before, after = gains[i - 1], gains[i]
        if before > 1 >= after > 0:
            share = math.log(before) / math.log(before / after)
            crossed = math.exp(math.log(users[i - 1]) + share * math.log(users[i] / users[i - 1]))
    return crossed
