"""What a campaign would do from here, if all came as its forecasts have it; nothing is started."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from spectune.assemble.campaigns import Prepared, opening
from spectune.assemble.course import Course, Step, course_of
from spectune.assemble.ledgers import ledger_path, readable, unfinished
from spectune.assemble.planning import candidates, expected_launches
from spectune.assemble.transfer import priors
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Capacity
from spectune.domain.estimate import Ratio
from spectune.domain.forecast import Forecast
from spectune.domain.history import History
from spectune.domain.metrics import MetricName
from spectune.domain.priors import PriorTrial
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Purpose
from spectune.domain.workload import Level, LevelKind
from spectune.predict.outlook import Crossover, by_level, crossover
from spectune.predict.speed import Gains, SpeedForecaster
from spectune.search.prospects import hopeless, prospect

GoingOn = Callable[[tuple[str, History] | None, Prepared], tuple[str, History] | None]

PER_USER, AGGREGATE = MetricName.PER_USER_SPEED, MetricName.AGGREGATE_SPEED


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate that the campaign considers.

    Attributes:
        launch: number of the step that tries it; 0 for none.
        gain: speed against the baseline under the objective.
        per_user, aggregate: label of a level -> speed against the baseline.
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
    crossover: number of users above which no candidate is faster for a user than the baseline.
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
    crossover: Crossover | None = None

    @property
    def minutes(self) -> float:
        return self.launches * self.seconds / 60


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
    course = course_of(prepared, history, forecasts, seconds)
    finished = len(history.finished)
    confirmed = sum(trial.purpose is Purpose.CONFIRM for trial in history.finished)
    confirming = max(0, 2 * spec.budget.confirm_pairs - confirmed)
    most = max(0, spec.budget.trials - finished)
    launches = len(course.steps) + confirming
    if not course.whole:
        launches = max(launches, expected_launches(spec, len(asked) - 1) - finished)
    shown = SpeedForecaster().by_level(spec, history, asked.values()) if forecasts else {}
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
                _told(shown.get(one.id, {}), PER_USER),
                _told(shown.get(one.id, {}), AGGREGATE),
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
        _crossover(prepared, history, asked.values()) if forecasts else None,
    )


def _told(gains: Mapping[Level, Gains], metric: MetricName) -> Mapping[str, Ratio]:
    return {level.label: told[metric] for level, told in gains.items() if metric in told}


def _crossover(prepared: Prepared, history: History, asked: Iterable[Candidate]) -> Crossover | None:
    """Between the least and the most users of the campaign; None where the baseline speculates, so that there is no
    such point, or nothing crosses."""
    users = [cell.level.users for cell in prepared.spec.cells if cell.level.kind is LevelKind.CONCURRENCY]
    speculating = [one for one in asked if one.speculation.depth]
    if not users or not speculating or prepared.baseline.speculation.depth:
        return None
    between = [2**power for power in range(20) if min(users) < 2**power < max(users)]
    found = crossover(by_level(SpeedForecaster(), prepared.spec, history, speculating, [*users, *between]))
    return found if found.users is not None else None


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


def _note(prepared: Prepared, course: Course, candidate: Candidate, ends: Mapping[str, Forecast], planned: bool) -> str:
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
