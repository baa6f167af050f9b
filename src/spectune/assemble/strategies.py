"""Strategies by the name that campaign files use."""

from __future__ import annotations

from collections.abc import Callable

from spectune.domain.ports import Strategy
from spectune.domain.spec import CampaignSpec
from spectune.search import Grid, Guided, Incremental, RandomOrder, Sampled, Staged

_MAKE: dict[str, Callable[[CampaignSpec], Strategy]] = {
    "guided": lambda spec: _guided(),
    "staged": lambda spec: Staged(),
    "incremental": lambda spec: Incremental(),
    "grid": lambda spec: Grid(),
    "random": lambda spec: RandomOrder(spec.seed),
    "tpe": lambda spec: Sampled("tpe"),
}


def _guided() -> Strategy:
    # Loaded only by those who search: the model's numerics take half a second.
    from spectune.predict.speed import SpeedForecaster

    return Guided(SpeedForecaster())


def strategy(spec: CampaignSpec) -> Strategy:
    """The strategy that a campaign asks for.

    Raises:
        InputError: a package that it needs is not installed.
    """
    return _MAKE[spec.search.strategy](spec)
