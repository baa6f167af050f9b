"""Forecasts: what a candidate will do that has not been tried yet, and the port that makes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Capacity
from spectune.domain.estimate import Estimate, Ratio
from spectune.domain.history import History
from spectune.domain.metrics import MetricName
from spectune.domain.spec import CampaignSpec


@dataclass(frozen=True, slots=True)
class Forecast:
    """What one candidate is expected to measure. A forecast explains and steers; it never ranks a finished campaign.

    Attributes:
        candidate: what it is about.
        cells: cell key -> metric -> estimate. Intervals are of the candidate's true speed, without the noise of another
            measurement; their n is the number of trials behind the forecast.
        capacity: the room it will have; None where nothing can be said.
        basis: for people, what the forecast rests on ("3 trials, 1 of mtp").
        gain: speed against the baseline under the objective's weights; None where a weighted cell has no forecast.
        lead: likewise against the best candidate measured so far.
        leader: id of that best candidate; "" where `lead` is None.
        priors: trials of earlier campaigns behind it.
    """

    candidate: Candidate
    cells: Mapping[str, Mapping[MetricName, Estimate]]
    capacity: Capacity | None
    basis: str
    gain: Ratio | None = None
    lead: Ratio | None = None
    leader: str = ""
    priors: int = 0


class Forecaster(Protocol):
    """Predicts from what was measured. Depends on its arguments alone."""

    def forecast(self, spec: CampaignSpec, history: History, candidates: Iterable[Candidate]) -> Mapping[str, Forecast]:
        """Candidate id -> forecast; candidates about which nothing can be said are absent. Never raises on any history
        that was measured, however odd its numbers."""
        ...
