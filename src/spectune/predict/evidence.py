"""What a forecast rests on: the trials of this campaign, and of earlier ones as far as they do not contradict it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spectune.domain.history import History
from spectune.domain.knobs import KnobValue
from spectune.domain.priors import Prior
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Trial
from spectune.predict import priors
from spectune.predict.acceptance import Counted
from spectune.predict.model import SpeedModel, fit_speed, noise
from spectune.predict.points import (
    Family,
    Scatter,
    Speed,
    counts,
    drafting_share,
    group_of,
    scatter_of,
    speeds,
)

Knobs = tuple[tuple[str, KnobValue], ...]
"""Sorted pairs of a candidate's other settings; only trials that have them alike tell about each other."""


@dataclass(frozen=True, slots=True)
class Body:
    """Trials of one campaign.

    Attributes:
        source: the earlier campaign; "" for this one's own.
        drift, acceptance_drift: see predict.priors.
    """

    trials: tuple[Trial, ...]
    source: str = ""
    drift: float = 0.0
    acceptance_drift: float = 0.0

    @property
    def speeds(self) -> tuple[Speed, ...]:
        return tuple(replace(speed, source=self.source, drift=self.drift) for speed in speeds(self.trials))

    def counted(self, groups: Sequence[str]) -> Iterator[tuple[Family, Counted]]:
        for family, depth, group, acceptance in counts(self.trials):
            if group in groups:
                yield family, Counted(depth, groups.index(group), acceptance, self.source, self.acceptance_drift)


def own(history: History, knobs: Knobs) -> Body:
    """This campaign's comparable trials that had their machine to themselves."""
    alone = (trial for trial in history.finished if trial.valid and trial.beside is None)
    return Body(tuple(trial for trial in alone if knobs_of(trial) == knobs))


def earlier(spec: CampaignSpec, history: History, knobs: Knobs, measured: Body) -> tuple[Body, ...]:
    """Those of earlier campaigns, but for campaigns that contradict what was measured in this one.

    Their trials have negative numbers, so that they are nobody else's.
    """
    found, scatter, taken = [], scatter_among(measured), 0
    for prior in history.opened.priors:
        trials = [kept.as_trial(-taken - place) for place, kept in enumerate(prior.trials, 1)]
        taken += len(prior.trials)
        body = _body(prior, [trial for trial in trials if knobs_of(trial) == knobs])
        if body.speeds and _agrees(spec, body, measured, scatter):
            found.append(body)
    return tuple(found)


def knobs_of(trial: Trial) -> Knobs:
    return tuple(sorted(trial.candidate.knobs.items()))


def scatter_among(measured: Body) -> Scatter:
    """As this campaign's own repeats tell it: how earlier ones scattered is another matter."""
    return scatter_of(measured.speeds, {trial.number: trial.candidate.id for trial in measured.trials})


def model_of(spec: CampaignSpec, bodies: Iterable[Body], scatter: Scatter) -> SpeedModel:
    """The model of all speeds and counts. There must be a speed."""
    bodies = tuple(bodies)
    seen = [speed for body in bodies for speed in body.speeds]
    names: dict[Family, None] = {s.point.family: None for s in seen if s.point.family is not None}
    families: Mapping[Family, float] = {family: _share(family, bodies) for family in names}
    groups = tuple(dict.fromkeys([*(group_of(cell) for cell in spec.cells), *(s.point.group for s in seen)]))
    counted = [(family, count) for body in bodies for family, count in body.counted(groups) if family in families]
    return fit_speed(seen, counted, families, groups, scatter)


def _share(family: Family, bodies: Sequence[Body]) -> float:
    """Of this campaign where it has measured the family, else of the newest earlier one that has."""
    told = (body.trials for body in bodies if any(s.point.family == family for s in body.speeds))
    return drafting_share(family, next(told))


def _body(prior: Prior, trials: Iterable[Trial]) -> Body:
    return Body(tuple(trials), prior.campaign, priors.drift(prior), priors.acceptance_drift(prior))


def _agrees(spec: CampaignSpec, body: Body, measured: Body, scatter: Scatter) -> bool:
    model = model_of(spec, [body], scatter)
    told = [s for s in measured.speeds if s.point.family is None or s.point.family in model.families]
    told = [speed for speed in told if speed.point.group in model.groups]
    if not told:
        return True
    expected = model.predict([speed.point for speed in told])
    off = [speed.log for speed in told] - expected.mean
    return priors.agrees(off, expected.covariance + noise(told, scatter))
