"""Every strategy of the campaign file has its class."""

from __future__ import annotations

from dataclasses import fields
from importlib.util import find_spec
from typing import get_args, get_type_hints

import pytest

from spectune.assemble.strategies import strategy
from spectune.domain.ports import Proposal
from spectune.domain.spec import SearchSpec
from spectune.domain.trial import Purpose
from spectune.search import Grid, Guided, Incremental, RandomOrder, Sampled, Staged
from tests.support.histories import Story, spec

CLASSES = {
    "guided": Guided,
    "staged": Staged,
    "incremental": Incremental,
    "grid": Grid,
    "random": RandomOrder,
    "tpe": Sampled,
}


def test_there_is_one_for_every_name_and_guided_is_the_usual_one() -> None:
    assert set(get_args(get_type_hints(SearchSpec)["strategy"])) == set(CLASSES)
    assert next(field for field in fields(SearchSpec) if field.name == "strategy").default == "guided"


@pytest.mark.parametrize("name", CLASSES)
def test_it_is_made_and_begins_with_the_baseline(name: str) -> None:
    if name == "tpe" and find_spec("optuna") is None:
        pytest.skip("needs Optuna")
    campaign = spec(search=SearchSpec(strategy=name))  # type: ignore[arg-type]
    made = strategy(campaign)
    assert type(made) is CLASSES[name]
    first = made.propose(campaign, Story(campaign).history)
    assert isinstance(first, Proposal)
    assert first.purpose is Purpose.BASELINE
