"""The launches a strategy would make if every one measured what is forecast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spectune.assemble.campaigns import Prepared
from spectune.assemble.strategies import strategy
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Capacity, Deployment, Seen
from spectune.domain.estimate import Estimate, Ratio
from spectune.domain.events import Decided, Deployed, Event, Measured, TrialEnded, TrialStarted
from spectune.domain.forecast import Forecast
from spectune.domain.history import History
from spectune.domain.measurement import Measurement
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Decision, Verdict
from spectune.search.staged import spelled_out

_MOST_STEPS: Final = 60
CONFIRMATION: Final = "the confirmation of the best, interleaved with the baseline"
BY_MEASUREMENT: Final = "what these launches measure decides what follows"


@dataclass(frozen=True, slots=True)
class Step:
    """One launch. `expected` is its speed against the baseline under the objective; None where nothing is known."""

    label: str
    purpose: Purpose
    reason: str
    expected: Ratio | None


@dataclass(frozen=True, slots=True)
class Course:
    """Attributes:
    whole: whether it goes to the end of the search.
    history: as it would be at its end.
    before: candidate id -> how its latest trial ended, of those that were launched already.
    """

    steps: tuple[Step, ...]
    then: str
    whole: bool
    history: History
    before: Mapping[str, TrialState]


def course_of(prepared: Prepared, history: History, forecasts: Mapping[str, Forecast], seconds: float) -> Course:
    """Steps as the strategy would make them if every launch measured what is forecast."""
    spec, chooser = prepared.spec, strategy(prepared.spec)
    named = {spelled_out(prepared.baseline, spelled).id for spelled in spec.search.candidates}
    before = {trial.candidate.id: trial.state for trial in history.finished}
    steps: list[Step] = []
    blind = False
    while len(steps) < _MOST_STEPS:
        step = chooser.propose(spec, history)
        if isinstance(step, Stop):
            return Course(tuple(steps), BY_MEASUREMENT if blind else step.reason, not blind, history, before)
        if step.purpose is Purpose.CONFIRM:
            return Course(tuple(steps), CONFIRMATION, True, history, before)
        candidate = step.candidate
        # Named candidates and other settings are tried whatever was measured; depths are not.
        certain = candidate.id in named or dict(candidate.knobs) != dict(prepared.baseline.knobs)
        chosen = step.purpose is Purpose.EXPLORE and not certain and not candidate.speculation.schedule
        if blind and chosen and _is_begun(history, candidate):
            break
        if candidate.label in prepared.pruned:
            history = _played(history, _refused(history, step))
            continue
        forecast = forecasts.get(candidate.id)
        blind = blind or (forecast is None and (chosen or step.purpose is Purpose.BASELINE))
        steps.append(Step(candidate.label, step.purpose, step.reason, forecast.gain if forecast else None))
        history = _played(history, _imagined(spec, history, step, forecasts, seconds))
    return Course(tuple(steps), BY_MEASUREMENT, False, history, before)


def _is_begun(history: History, candidate: Candidate) -> bool:
    """Whether its method was launched: from then on results decide."""
    method = (candidate.speculation.method, candidate.speculation.draft_model)
    tried = (trial.candidate.speculation for trial in history.finished)
    return method in {(one.method, one.draft_model) for one in tried}


def _played(history: History, events: Sequence[Event]) -> History:
    for event in events:
        history = history.then(event)
    return history


def _refused(history: History, step: Proposal) -> list[Event]:
    number = max(history.trials, default=0) + 1
    reference = history.incumbent.id
    return [
        TrialStarted(0.0, number, 1, step.candidate, step.purpose, ""),
        TrialEnded(0.0, number, TrialState.PRUNED, ""),
        Decided(0.0, number, Verdict(Decision.REVERT, "", reference)),
    ]


def _imagined(
    spec: CampaignSpec, history: History, step: Proposal, forecasts: Mapping[str, Forecast], seconds: float
) -> list[Event]:
    """A trial that measures what was forecast, to the precision asked for; without a forecast it tells nothing."""
    number, forecast = max(history.trials, default=0) + 1, forecasts.get(step.candidate.id)
    room = forecast.capacity if forecast and forecast.capacity else Capacity()
    deployment = Deployment((), {}, "", 0, 0.0, 0.0, 0.0, Seen(capacity=room))
    made: list[Event] = [
        TrialStarted(0.0, number, 1, step.candidate, step.purpose, ""),
        Deployed(0.0, number, deployment),
    ]
    off = spec.budget.precision
    for cell in spec.cells if forecast else ():
        told = forecast.cells.get(cell.key, {}) if forecast else {}
        metrics = {
            name: Estimate(one.value, one.value * (1 - off), one.value * (1 + off), 1, spec.objective.confidence)
            for name, one in told.items()
        }
        measured = Measurement(cell, 0.0, spec.budget.cell_seconds, metrics, {}, {}, cell.level.value)
        made.append(Measured(0.0, number, measured, ()))
    made.append(TrialEnded(seconds, number, TrialState.VALID, ""))
    made.append(Decided(seconds, number, _verdict(spec, history, step, forecasts)))
    return made


def _verdict(spec: CampaignSpec, history: History, step: Proposal, forecasts: Mapping[str, Forecast]) -> Verdict:
    reference = history.incumbent.id
    own, other = (forecasts[one].gain if one in forecasts else None for one in (step.candidate.id, reference))
    if own is None or other is None or step.purpose is not Purpose.EXPLORE:
        return Verdict(Decision.INCONCLUSIVE, "", reference)
    ratio, off = own.value / other.value, spec.budget.precision
    if ratio >= 1 + spec.objective.min_gain:
        decision = Decision.KEEP
    else:
        decision = Decision.REVERT if ratio < 1 - off else Decision.TIE
    overall = Ratio(ratio, ratio * (1 - off), ratio * (1 + off), 1, spec.objective.confidence)
    return Verdict(decision, "", reference, overall)
