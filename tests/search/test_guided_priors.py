"""Earlier campaigns save launches where they are right, and do no harm where they are not."""

from __future__ import annotations

import pytest

from bench.search.priors import FORECASTER, drifted, launches, misleading, prior_of, regret, searched
from bench.search.surfaces import Surface, random_surfaces
from spectune.domain.ports import Proposal
from spectune.domain.trial import Purpose
from spectune.search.guided import Guided

SURFACES = {surface.name: surface for surface in random_surfaces(16)}
SOME = ("ordinary 1", "sharp optimum 1", "text and head 1", "deep optimum 1")


@pytest.fixture(params=SOME)
def surface(request: pytest.FixtureRequest) -> Surface:
    return SURFACES[request.param]


def test_a_true_prior_saves_launches(surface: Surface) -> None:
    alone, informed = 0, 0
    for seed in (1, 2, 3):
        old = searched(drifted(surface, seed, 0.03), seed + 100)
        without, using = searched(surface, seed), searched(surface, seed, [prior_of(old)])
        alone, informed = alone + launches(without), informed + launches(using)
        assert regret(surface, using) <= 0.02
        first = next(trial for trial in using.finished if trial.purpose is Purpose.EXPLORE)
        assert "of campaign old" in first.reason
    assert informed < alone


@pytest.mark.parametrize("other", ["dead head 1", "sharp optimum 2"])
def test_a_misleading_prior_does_no_harm(surface: Surface, other: str) -> None:
    wrong = prior_of(searched(misleading(surface, SURFACES[other]), 102))
    found = searched(surface, 2, [wrong])
    assert regret(surface, found) <= 0.02


def test_the_first_launch_of_a_method_is_the_depth_that_earlier_campaigns_promise_most() -> None:
    surface = SURFACES["deep optimum 1"]
    old = searched(surface, 3)
    history = searched(surface, 4, [prior_of(old)])
    first = next(trial for trial in history.finished if trial.purpose is Purpose.EXPLORE)
    assert (
        1
        - surface.truth[first.candidate.id][surface.spec.cells[0].key].per_user
        / max(cells[surface.spec.cells[0].key].per_user for cells in surface.truth.values())
        < 0.1
    )


def test_a_method_is_left_out_unseen_only_after_another_bore_the_prior_out() -> None:
    """The head of this machine gains, looking text up does not: with the earlier campaign, text is never launched, but
    the head is launched first."""
    surface = SURFACES["text and head 1"]
    history = searched(surface, 1, [prior_of(searched(surface, 103))])
    methods = {t.candidate.speculation.method for t in history.finished if t.purpose is Purpose.EXPLORE}
    assert len(methods) == 1
    assert methods < {space.method for space in surface.spec.search.speculation}
    assert regret(surface, history) <= 0.02


def test_a_resumed_campaign_goes_on_as_it_would_have() -> None:
    surface = SURFACES["ordinary 1"]
    history = searched(surface, 1, [prior_of(searched(surface, 101))])
    again = [Guided(FORECASTER).propose(surface.spec, history) for _ in range(2)]
    assert again[0] == again[1]
    assert not isinstance(again[0], Proposal) or again[0].purpose is Purpose.CONFIRM
