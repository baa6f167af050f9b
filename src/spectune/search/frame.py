"""What every plain strategy does around its own way of choosing: the baseline twice, other settings one at a time, the
incumbent again from time to time, and the confirmation, within the budget. All of it as in the staged search, so that
strategies differ in nothing but the choice of speculation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from spectune.domain.candidate import Candidate
from spectune.domain.history import History
from spectune.domain.ports import Proposal, Stop
from spectune.domain.spec import CampaignSpec, SpeculationSpace
from spectune.domain.trial import Purpose, Trial
from spectune.domain.verdict import Decision
from spectune.search.bracket import confirmation, confirming, finalist, opening, scores
from spectune.search.spending import affordable, anchor
from spectune.search.staged import at_depth


@dataclass(frozen=True, slots=True)
class Point:
    """One speculation to try.

    Attributes:
        space: index of its method in the campaign file.
        step: index of its depth among the method's, shallowest first.
    """

    space: int
    step: int
    method: str
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class Field:
    """What a strategy chooses from, and what is known of it.

    Attributes:
        points: every speculation that may be tried on `base`, method by method, shallowest first.
        base: the best so far without changes to speculation.
        tried: candidate id -> its latest trial.
        scores: candidate id -> estimated speed against the baseline; absent where there was no comparison.
    """

    points: tuple[Point, ...]
    base: Candidate
    tried: Mapping[str, Trial]
    scores: Mapping[str, float]

    @property
    def untried(self) -> tuple[Point, ...]:
        return tuple(point for point in self.points if point.candidate.id not in self.tried)


Choice = Callable[[Field], Proposal | None]
"""The next speculation; None when there is nothing more worth trying. Only asked while something is untried."""


def propose(spec: CampaignSpec, history: History, choose: Choice) -> Proposal | Stop:
    """The next trial of a strategy that chooses speculations by `choose`."""
    if (first := opening(history)) is not None:
        return first
    field = _field(spec, history)
    wanted = next(_settings(spec, history, field), None) or (choose(field) if field.untried else None)
    if wanted is not None and not confirming(history) and affordable(spec, history, finalist(spec, history)):
        return anchor(history) or wanted
    if (proof := confirmation(spec, history)) is not None:
        return proof
    if wanted is None:
        return Stop("everything worth trying was tried")
    return Stop(f"the budget ended before {wanted.candidate.label} could be tried")


def explore(point: Point, reason: str) -> Proposal:
    """A proposal of one point, its reason beginning with the method."""
    depth = point.candidate.speculation.depth
    return Proposal(point.candidate, Purpose.EXPLORE, f"{point.method}: {reason}, k={depth}")


def _field(spec: CampaignSpec, history: History) -> Field:
    known = scores(history)
    base = _base(spec, history, known)
    points: dict[str, Point] = {}
    for index, space in enumerate(spec.search.speculation):
        for point in _points(index, space, base):
            if point.candidate.id != history.baseline.id:
                points.setdefault(point.candidate.id, point)
    tried = {trial.candidate.id: trial for trial in history.finished}
    return Field(tuple(points.values()), base, tried, known)


def _points(index: int, space: SpeculationSpace, base: Candidate) -> Iterator[Point]:
    for step, depth in enumerate(sorted(set(space.depths))):
        yield Point(index, step, space.method.value, at_depth(base, space, depth))


def _base(spec: CampaignSpec, history: History, known: Mapping[str, float]) -> Candidate:
    """The best in other settings that speculates as the baseline does and was not reverted."""
    standing = {
        trial.candidate.id: trial.candidate
        for trial in history.finished
        if trial.purpose is Purpose.EXPLORE
        and trial.candidate.speculation == history.baseline.speculation
        and trial.verdict is not None
        and trial.verdict.decision is not Decision.REVERT
        and known.get(trial.candidate.id, 0.0) >= 1 + spec.objective.min_gain
    }
    return max(standing.values(), key=lambda candidate: known[candidate.id], default=history.baseline)


def _settings(spec: CampaignSpec, history: History, field: Field) -> Iterator[Proposal]:
    """Values of other settings that were not tried yet, each on the best so far."""
    explored = [trial.candidate for trial in history.finished if trial.purpose is Purpose.EXPLORE]
    for name, values in spec.search.knobs.items():
        as_it_is = history.baseline.knobs.get(name, history.opened.service.args.get(name))
        for value in values:
            seen = any(name in candidate.knobs and candidate.knobs[name] == value for candidate in explored)
            if value != as_it_is and not seen:
                candidate = replace(field.base, knobs={**field.base.knobs, name: value})
                yield Proposal(candidate, Purpose.EXPLORE, f"{name}={value} on the best so far")
