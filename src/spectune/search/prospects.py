"""What is left to try, weighed by its forecast: how likely it is to win, and by how much."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist

from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Capacity
from spectune.domain.estimate import Ratio
from spectune.domain.forecast import Forecast
from spectune.domain.metrics import MetricName
from spectune.domain.spec import CampaignSpec
from spectune.domain.workload import LevelKind

ROOM_MARGIN = 0.05
"""A candidate is left out for lack of room only where its forecast is below the floor by more than this share."""

_STANDARD = NormalDist()


@dataclass(frozen=True, slots=True)
class Prospect:
    """A candidate that has a forecast against the best one measured so far.

    Attributes:
        gain: natural logarithm of the expected speed ratio to the best so far.
        spread: its standard deviation.
    """

    candidate: Candidate
    forecast: Forecast
    gain: float
    spread: float

    @property
    def chance(self) -> float:
        """Probability that it is faster than the best so far."""
        return _STANDARD.cdf(self.gain / self.spread) if self.spread > 0 else float(self.gain > 0)

    @property
    def improvement(self) -> float:
        """Expected improvement in log speed, E[max(0, gain)] (Mockus 1978; Jones, Schonlau and Welch 1998)."""
        if self.spread <= 0:
            return max(0.0, self.gain)
        z = self.gain / self.spread
        return self.spread * (_STANDARD.pdf(z) + z * _STANDARD.cdf(z))

    def possible(self, confidence: float) -> float:
        """The largest gain to be reckoned with at this confidence, as a share (0.05 is 5 %)."""
        return math.expm1(self.gain + _STANDARD.inv_cdf(confidence) * self.spread)


def prospect(forecast: Forecast) -> Prospect | None:
    """None where the forecast does not compare with the best so far, or its interval is not one."""
    lead = forecast.lead
    if lead is None or not (0 < lead.low <= lead.value <= lead.high < math.inf) or not 0 < lead.confidence < 1:
        return None
    reach = _STANDARD.inv_cdf((1 + lead.confidence) / 2)
    return Prospect(forecast.candidate, forecast, math.log(lead.value), math.log(lead.high / lead.low) / 2 / reach)


def hopeless(spec: CampaignSpec, forecast: Forecast, baseline: Forecast | None) -> str:
    """Why a candidate can't win, whatever its speed: too little room, or a level that loses too much; "" where none."""
    return next(_too_little_room(spec, forecast.capacity), "") or next(_too_slow(spec, forecast, baseline), "")


def _too_little_room(spec: CampaignSpec, capacity: Capacity | None) -> Iterator[str]:
    room = capacity or Capacity()
    floors = (
        (spec.constraints.min_kv_tokens, room.kv_tokens, "tokens of KV room"),
        (spec.constraints.min_running_requests, room.max_running, "running requests"),
    )
    for floor, expected, what in floors:
        if floor is not None and expected is not None and expected < floor * (1 - ROOM_MARGIN):
            yield f"about {expected} {what} expected, at least {floor} are demanded"


def _too_slow(spec: CampaignSpec, forecast: Forecast, baseline: Forecast | None) -> Iterator[str]:
    most, metric = spec.constraints.max_slowdown, spec.objective.maximise
    if most is None or baseline is None:
        return
    for cell in spec.cells:
        own = forecast.cells.get(cell.key, {}).get(metric)
        other = baseline.cells.get(cell.key, {}).get(metric)
        if own is not None and other is not None and own.high < other.low * (1 - most):
            loss = 100 * (1 - own.value / other.value)
            yield f"a loss of {loss:.0f} % expected at {cell.label}, at most {100 * most:g} % is allowed"


def in_words(spec: CampaignSpec, found: Prospect, baseline: Forecast | None, leader: str) -> str:
    """A forecast for the ledger: against the baseline overall and at the quietest and busiest level, then against the
    best so far."""
    forecast = found.forecast
    parts = [f"forecast {_percent(forecast.gain)}" if forecast.gain else "forecast without comparison to the baseline"]
    if baseline is not None:
        parts += _by_level(spec, forecast, baseline)
    if forecast.leader != (baseline.candidate.id if baseline else ""):
        parts.append(f"{_percent(forecast.lead)} against {leader}, the best so far")
    parts.append(f"{100 * found.chance:.0f} % likely the faster of the two")
    return "; ".join(parts) + f" ({forecast.basis})"


def _by_level(spec: CampaignSpec, forecast: Forecast, baseline: Forecast) -> Iterator[str]:
    closed = [cell for cell in spec.cells if cell.level.kind is LevelKind.CONCURRENCY]
    ends = dict.fromkeys((closed[0].level, closed[-1].level)) if closed else {}
    for level in ends if len(ends) > 1 else ():
        keys = [cell.key for cell in closed if cell.level == level]
        logs = list(_log_gains(keys, forecast, baseline, spec.objective.maximise))
        if logs:
            yield f"{100 * math.expm1(sum(logs) / len(logs)):+.0f} % at {level.label}"


def _log_gains(keys: Iterable[str], forecast: Forecast, baseline: Forecast, metric: MetricName) -> Iterator[float]:
    for key in keys:
        own, other = (made.cells.get(key, {}).get(metric) for made in (forecast, baseline))
        if own is not None and other is not None and own.value > 0 and other.value > 0:
            yield math.log(own.value / other.value)


def _percent(ratio: Ratio | None) -> str:
    if ratio is None:
        return "unknown"
    gain, low, high = (100 * (x - 1) for x in (ratio.value, ratio.low, ratio.high))
    return f"{gain:+.0f} % ({low:+.0f} to {high:+.0f})"


def ranked(found: Mapping[str, Forecast], among: Iterable[Candidate]) -> list[Prospect]:
    """Prospects of those candidates that have one, the most promising first; of equals the simpler first."""
    made = (prospect(found[candidate.id]) for candidate in among if candidate.id in found)
    return sorted((p for p in made if p is not None), key=lambda p: (-p.improvement, p.candidate.simplicity()))
