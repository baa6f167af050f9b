"""What a campaign would do from here, if all came as its forecasts have it; nothing is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from spectune.assemble.campaigns import Prepared, opening
from spectune.assemble.ledgers import ledger_path, readable, unfinished
from spectune.assemble.planning import candidates, expected_launches
from spectune.assemble.strategies import strategy
from spectune.assemble.transfer import priors
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Capacity, Deployment, Seen
from spectune.domain.estimate import Estimate, Ratio
from spectune.domain.events import Decided, Deployed, Event, Measured, TrialEnded, TrialStarted
from spectune.domain.forecast import Forecast
from spectune.domain.history import History
from spectune.domain.measurement import Measurement
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Proposal, Stop
from spectune.domain.priors import PriorTrial
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Decision, Verdict
from spectune.predict.outlook import gains_by_level
from spectune.predict.speed import SpeedForecaster
from spectune.search.prospects import hopeless, prospect
from spectune.search.staged import spelled_out

GoingOn = Callable[[tuple[str, History] | None, Prepared], tuple[str, History] | None]

_MOST_STEPS = 60
CONFIRMATION = "the confirmation of the best, interleaved with the baseline"
BY_MEASUREMENT = "what these launches measure decides what follows"


@dataclass(frozen=True, slots=True)
class Step:
    """One launch. `expected` is its speed against the baseline under the objective; None where nothing is known."""

    label: str
    purpose: Purpose
    reason: str
    expected: Ratio | None


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate that the campaign considers.

    Attributes:
        launch: number of the step that tries it; 0 for none.
        gain: speed against the baseline under the objective.
        per_user, aggregate: level -> speed against the baseline.
        room: KV tokens and requests at a time.
        note: why it is not tried, or what is special about it; "" otherwise.
    """

    label: str
    launch: int
    gain: Ratio | None
    per_user: Mapping[str, Ratio]
    aggregate: Mapping[str, Ratio]
    room: Capacity | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Attributes:
    campaign: the interrupted one that a run would go on with; "" for a new one.
    sources: what the forecasts rest on, for people; empty where nothing is measured yet.
    levels: in the order of the campaign.
    steps: launches up to the confirmation, as far as they can be told.
    then: what comes after them.
    launches: that are to be expected, the confirmation's among them.
    confirming: launches of the confirmation.
    most: launches that the budget allows.
    seconds: of one launch with all its cells; where `learned` is False, of measuring alone.
    """

    campaign: str
    sources: tuple[str, ...]
    levels: tuple[str, ...]
    steps: tuple[Step, ...]
    then: str
    rows: tuple[Row, ...]
    launches: int
    confirming: int
    most: int
    seconds: float
    learned: bool

    @property
    def minutes(self) -> float:
        return self.launches * self.seconds / 60


@dataclass(frozen=True, slots=True)
class _Course:
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


def outlook(prepared: Prepared, history: History, campaign: str = "") -> Outlook:
    """The course from where a history stands.

    Args:
        history: of the interrupted campaign that a run would go on with, or of a new one that was only opened.
        campaign: id of the interrupted one.
    """
    spec = prepared.spec
    asked = {prepared.baseline.label: prepared.baseline, **candidates(prepared)}
    forecasts = _forecasts(spec, history, list(asked.values()))
    seconds, learned = _seconds(spec, history)
    course = _course(prepared, history, forecasts, seconds)
    finished = len(history.finished)
    confirmed = sum(trial.purpose is Purpose.CONFIRM for trial in history.finished)
    confirming = max(0, 2 * spec.budget.confirm_pairs - confirmed)
    most = max(0, spec.budget.trials - finished)
    launches = len(course.steps) + confirming
    if not course.whole:
        launches = max(launches, expected_launches(spec, len(asked) - 1) - finished)
    shown = gains_by_level(SpeedForecaster(), spec, history, asked.values()) if forecasts else {}
    ends = _forecasts(spec, course.history, list(asked.values())) if forecasts else {}
    place = {step.label: number for number, step in reversed(list(enumerate(course.steps, 1)))}
    return Outlook(
        campaign,
        tuple(_sources(history)),
        tuple(dict.fromkeys(cell.level.label for cell in spec.cells)),
        course.steps,
        course.then,
        tuple(
            Row(
                label,
                place.get(label, 0),
                forecasts[one.id].gain if one.id in forecasts else None,
                *shown.get(one.id, ({}, {})),
                forecasts[one.id].capacity if one.id in forecasts else None,
                _note(prepared, course, one, ends, label in place),
            )
            for label, one in asked.items()
        ),
        min(most, launches),
        confirming,
        most,
        seconds,
        learned,
    )


def foreseen(prepared: Prepared, directory: Path, others: Sequence[Path], to_go_on_with: GoingOn) -> Outlook:
    """The outlook of a run in a directory of runs, as it is now.

    Args:
        others: see `priors`.
        to_go_on_with: the interrupted campaign, if a run would go on with it.

    Raises:
        InputError: a run would refuse to go on with the interrupted campaign; a directory of `others` has no ledger.
        LedgerError: a ledger can't be read.
    """
    if not ledger_path(directory).exists():
        return outlook(prepared, History(opening(prepared, 0.0, priors(prepared, None, others))))
    with readable(directory) as ledger:
        found = to_go_on_with(unfinished(ledger, prepared.spec.name), prepared)
        if found is not None:
            return outlook(prepared, found[1], found[0])
        return outlook(prepared, History(opening(prepared, 0.0, priors(prepared, ledger, others))))


def _forecasts(spec: CampaignSpec, history: History, asked: Sequence[Candidate]) -> Mapping[str, Forecast]:
    if spec.objective.maximise is MetricName.GOODPUT:
        return {}  # forecasts are of speed, and goodput does not follow from it
    return SpeedForecaster().forecast(spec, history, asked)


def _sources(history: History) -> Iterator[str]:
    own = sum(trial.valid for trial in history.finished)
    if own:
        yield "1 trial of this campaign" if own == 1 else f"{own} trials of this campaign"
    yield from (prior.label for prior in history.opened.priors)


def _seconds(spec: CampaignSpec, history: History) -> tuple[float, bool]:
    """Of one launch: as long as earlier ones took to start and for each cell; else of measuring alone, and False."""
    kept = [trial for prior in history.opened.priors for trial in prior.trials]
    times = [(trial.ready_s, trial.whole_s, len(trial.cells)) for trial in kept]
    own = [PriorTrial.of(trial) for trial in history.finished if trial.valid and trial.beside is None]
    if own:
        times = [(trial.ready_s, trial.whole_s, len(trial.cells)) for trial in own]
    times = [(ready, whole, cells) for ready, whole, cells in times if cells and whole > ready]
    if not times:
        return len(spec.cells) * spec.budget.cell_seconds, False
    each = median((whole - ready) / cells for ready, whole, cells in times)
    return median(ready for ready, _, _ in times) + len(spec.cells) * each, True


def _course(prepared: Prepared, history: History, forecasts: Mapping[str, Forecast], seconds: float) -> _Course:
    """Steps as the strategy would make them if every launch measured what is forecast."""
    spec, chooser = prepared.spec, strategy(prepared.spec)
    named = {spelled_out(prepared.baseline, spelled).id for spelled in spec.search.candidates}
    before = {trial.candidate.id: trial.state for trial in history.finished}
    steps: list[Step] = []
    blind = False
    while len(steps) < _MOST_STEPS:
        step = chooser.propose(spec, history)
        if isinstance(step, Stop):
            return _Course(tuple(steps), BY_MEASUREMENT if blind else step.reason, not blind, history, before)
        if step.purpose is Purpose.CONFIRM:
            return _Course(tuple(steps), CONFIRMATION, True, history, before)
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
    return _Course(tuple(steps), BY_MEASUREMENT, False, history, before)


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


def _note(
    prepared: Prepared, course: _Course, candidate: Candidate, ends: Mapping[str, Forecast], planned: bool
) -> str:
    """Args:
    ends: forecasts at the end of the course.
    """
    if candidate.id == prepared.baseline.id:
        return "what the service does already"
    if candidate.label in prepared.pruned:
        return f"cannot run: {prepared.pruned[candidate.label]}"
    if candidate.id in course.before:
        return f"launched already ({course.before[candidate.id].value})"
    forecast = ends.get(candidate.id)
    if planned or forecast is None or not course.whole:
        return ""
    reason = hopeless(prepared.spec, forecast, ends.get(prepared.baseline.id))
    if reason:
        return f"left out: {reason}"
    hoped, confidence = prospect(forecast), prepared.spec.objective.confidence
    if hoped is None:
        return ""
    known = {one.id: one.label for one in course.history.candidates.values()}
    best = "the baseline" if forecast.leader == prepared.baseline.id else known.get(forecast.leader, forecast.leader)
    return f"left out: at best {100 * hoped.possible(confidence):+.1f} % against {best} ({100 * confidence:g} % sure)"
