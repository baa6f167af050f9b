"""Earlier campaigns in the fit: with more noise than today's trials, and not at all where they are contradicted."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from spectune.domain.candidate import Candidate, Method
from spectune.domain.deployment import Capacity
from spectune.domain.history import History
from spectune.domain.priors import Prior, PriorTrial
from spectune.predict import priors
from spectune.predict.points import Family, Point, Speed
from spectune.predict.room import interpolated
from spectune.predict.speed import SpeedForecaster
from tests.predict.test_speed import depths, simple, told

SURFACE = simple((1, 8))


def taken(history: History, *differs: str) -> Prior:
    return Prior("old", differs, tuple(PriorTrial.of(trial) for trial in history.finished))


def new(*earlier: Prior, tried: tuple[int, ...] = (), off: float = 0.0) -> History:
    """A campaign with two baselines and some depths. `off`: by which log of drafting speeds differs from then."""
    surface = SURFACE
    if off:
        names = {candidate.id for candidate in depths(SURFACE)}
        truth = {
            name: {k: replace(c, per_user=c.per_user * math.exp(off * (name in names))) for k, c in cells.items()}
            for name, cells in SURFACE.truth.items()
        }
        surface = replace(SURFACE, truth=truth)
    made = told(surface, [SURFACE.baseline, SURFACE.baseline, *(depths(SURFACE)[k] for k in tried)], 0.01, seed=5)
    return replace(made, opened=replace(made.opened, priors=earlier))


OLD = told(SURFACE, [SURFACE.baseline, SURFACE.baseline, *depths(SURFACE)[:3]], 0.01, seed=4)


def forecast(history: History, depth: int = 2):  # type: ignore[no-untyped-def]
    candidate = depths(SURFACE)[depth]
    return SpeedForecaster().forecast(SURFACE.spec, history, [SURFACE.baseline, candidate]).get(candidate.id)


def width(history: History) -> float:
    found = forecast(history)
    assert found is not None
    assert found.gain is not None
    return math.log(found.gain.high / found.gain.low)


def test_they_forecast_a_method_that_was_not_tried_yet_and_say_so() -> None:
    assert forecast(new()) is None
    found = forecast(new(taken(OLD)))
    assert found is not None
    assert found.priors == len(OLD.finished)
    assert "earlier: 5 of campaign old" in found.basis
    exact = SURFACE.score(depths(SURFACE)[2].id) - SURFACE.score(SURFACE.baseline.id)
    assert found.gain is not None
    assert math.log(found.gain.low) < exact < math.log(found.gain.high)


def test_what_differs_makes_them_worth_less() -> None:
    same, one, two = (width(new(taken(OLD, *differs))) for differs in ((), ("engine",), ("engine", "workload")))
    measured = width(new(tried=(2,)))
    assert measured < same < one < two


def test_nobody_is_compared_with_a_candidate_that_only_they_measured() -> None:
    found = forecast(new(taken(OLD)))
    assert found is not None
    assert found.leader == SURFACE.baseline.id


@pytest.mark.parametrize(("off", "used"), [(0.0, True), (0.02, True), (-0.5, False), (0.5, False)])
def test_one_that_is_contradicted_is_not_used(off: float, used: bool) -> None:
    found = forecast(new(taken(OLD), tried=(1,), off=off))
    assert found is not None
    assert (found.priors > 0) is used
    if not used:
        alone = forecast(new(tried=(1,), off=off))
        assert found.gain == alone.gain


def test_todays_speeds_have_no_drift() -> None:
    point = Point(None, 0, "c1 T0", "0", 1.0)
    own, old = Speed(point, 1, 0.0, 1e-4, None), Speed(point, -1, 0.0, 1e-4, None, "old", 0.03)
    found = priors.drifted([own, old, replace(old, trial=-2, source="older")])
    assert found[0].tolist() == [0, 0, 0]
    assert found[1, 1] == pytest.approx(priors.SHIFT**2 + 0.03**2)
    assert found[1, 2] == 0
    assert (np.linalg.eigvalsh(found) >= -1e-12).all()


def test_a_deployments_drift_is_the_same_at_every_load_and_no_neighbours() -> None:
    def old(depth: int, batch: float, drift: float) -> Speed:
        return Speed(
            Point(Family(Method.EAGLE, 1, None, ()), depth, f"c{batch:g} T0", "0", batch),
            -1,
            0.0,
            1e-4,
            None,
            "old",
            drift,
        )

    def covariance(drift: float) -> list[list[float]]:
        found = priors.drifted([old(1, 1, drift), old(1, 64, drift), old(2, 64, drift)])
        assert (np.linalg.eigvalsh(found) >= -1e-12).all()
        return list(found)

    same, other = covariance(priors.DRIFT), covariance(math.hypot(priors.DRIFT, priors.DIFFERENT))
    assert same[0][1] - same[0][2] == pytest.approx(priors.DRIFT**2)
    assert same[1][1] - same[1][2] == pytest.approx(priors.DRIFT**2)
    shared = other[1][2] - same[1][2]
    assert 0 < shared < priors.DIFFERENT**2 / 2  # what differs, a neighbour shares in part, and less at another load
    assert other[0][2] - same[0][2] < shared / 10


def test_the_test_of_contradiction_errs_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    drawn = rng.multivariate_normal([0, 0], covariance, 2000)
    share = np.mean([not priors.agrees(row, covariance) for row in drawn])
    assert share == pytest.approx(priors.LEAST_LIKELY, abs=0.015)
    assert priors.agrees(np.zeros(0), np.zeros((0, 0)))


def roomy(history: History, tokens: int) -> Prior:
    made = taken(history)
    trials = tuple(
        replace(trial, capacity=Capacity(tokens - 100 * trial.candidate.speculation.depth)) for trial in made.trials
    )
    return replace(made, trials=trials)


def test_room_is_taken_from_them_while_both_have_the_same_where_both_measured() -> None:
    depth = depths(SURFACE)[2]
    empty = told(SURFACE, [])
    told_room = interpolated(
        SURFACE.spec, replace(empty, opened=replace(empty.opened, priors=(roomy(OLD, 9000),))), depth
    )
    assert told_room == Capacity(8700)
    other = new(roomy(OLD, 9000))  # whose baseline tells no room
    assert interpolated(SURFACE.spec, other, depth) is None
    differing = replace(roomy(OLD, 9000), differs=("engine",))
    history = replace(empty, opened=replace(empty.opened, priors=(differing,)))
    assert interpolated(SURFACE.spec, history, depth) is None


def test_text_methods_keep_their_share_of_steps_with_a_draft() -> None:
    trial = next(t for t in OLD.finished if t.candidate.speculation.depth)
    again = PriorTrial.of(trial).as_trial(-1)
    for key, cell in trial.cells.items():
        kept = again.cells[key].measurement
        before, after = cell.measurement.counters_before, cell.measurement.counters_after
        assert before is not None and after is not None and kept.counters_after is not None  # noqa: PT018
        assert kept.counters_after.output_tokens == (after.output_tokens or 0) - (before.output_tokens or 0)
        assert kept.acceptance == cell.measurement.acceptance
    assert again.candidate != Candidate()
