from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.estimate import Estimate
from spectune.domain.events import Measured
from spectune.domain.measurement import Measurement, Outcome
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Proposal
from spectune.domain.spec import WorkloadSpec
from spectune.domain.trial import TrialState
from spectune.domain.workload import Cell, Level, Sampling
from spectune.search.scheduled import scheduled
from tests.support.histories import BASELINE, Story, draft, spec

SPEC = spec(workload=WorkloadSpec(concurrency=(1, 8, 64), temperatures=(0.0, 0.7)))
NGRAM = Candidate(Speculation(Method.NGRAM, 8))


def story(speeds: Mapping[str, tuple[float, ...]], *candidates: Candidate) -> Story:
    """Trials with these per-user speeds at 1, 8 and 64 users."""
    told = Story(SPEC)
    for candidate in candidates:
        told.trial(candidate)
        number = len(told.history.trials)
        at = next(i for i, e in enumerate(told.events) if getattr(e, "trial", 0) == number and e.kind == "trial-ended")
        for users, speed in zip((1, 8, 64), speeds[candidate.label], strict=True):
            for temperature in (0.0, 0.7):
                cell = Cell(Level(users), Sampling(temperature))
                metrics = {MetricName.PER_USER_SPEED: Estimate(speed, speed, speed, 9)}
                measured = Measurement(cell, 0.0, 1.0, metrics, {}, {Outcome.OK: 9}, users)
                told.events.insert(at, Measured(0.0, number, measured, ()))
    return told


def proposed(speeds: Mapping[str, tuple[float, ...]], *candidates: Candidate) -> Proposal | None:
    return scheduled(SPEC, story(speeds, *candidates).history)


def test_levels_that_want_different_depths_make_a_schedule() -> None:
    speeds = {"none": (100, 60, 20), "draft k=1": (150, 70, 15), "draft k=3": (200, 60, 10)}
    found = proposed(speeds, BASELINE, draft(1), draft(3))
    assert found is not None
    assert found.candidate.speculation.schedule == ((1, 3), (8, 1), (64, 0))
    assert found.candidate.speculation.depth == 3
    assert found.candidate.speculation.draft_model == draft(3).speculation.draft_model
    assert found.candidate.label == "draft k=3/1/0 from 1/8/64 requests"
    assert "k=3 from 1, k=1 from 8, k=0 from 64" in found.reason
    assert found.candidate.id != draft(3).id


def test_it_is_tried_once() -> None:
    speeds = {"none": (100, 60, 20), "draft k=3": (200, 80, 10)}
    told = story(speeds, BASELINE, draft(3))
    found = scheduled(SPEC, told.history)
    assert found is not None
    assert found.candidate.speculation.schedule == ((1, 3), (64, 0))
    assert scheduled(SPEC, told.trial(found.candidate).history) is None


def test_one_depth_for_all_levels_is_no_schedule() -> None:
    assert proposed({"none": (100, 60, 20), "draft k=3": (200, 80, 30)}, BASELINE, draft(3)) is None
    assert proposed({"none": (100, 60, 20), "draft k=3": (90, 50, 10)}, BASELINE, draft(3)) is None


def test_a_difference_within_the_noise_changes_no_depth() -> None:
    speeds = {"none": (100, 60, 20), "draft k=1": (150, 80, 30), "draft k=3": (151, 79.5, 29.9)}
    assert proposed(speeds, BASELINE, draft(1), draft(3)) is None


def test_text_based_drafts_have_no_schedule() -> None:
    assert proposed({"none": (100, 60, 20), "ngram k=8": (200, 60, 10)}, BASELINE, NGRAM) is None


def test_other_settings_are_another_family() -> None:
    tuned = replace(draft(3), knobs={"threads": 2})
    speeds = {"none": (100, 60, 20), "draft k=3, threads=2": (200, 60, 10)}
    assert proposed(speeds, BASELINE, tuned) is None


def test_invalid_trials_say_nothing() -> None:
    told = story({"none": (100, 60, 20)}, BASELINE)
    assert scheduled(SPEC, told.trial(draft(3), state=TrialState.INVALID).history) is None
