"""Strategies: what to try next."""

from spectune.search.grid import Grid
from spectune.search.guided import Guided
from spectune.search.incremental import Incremental
from spectune.search.random_order import RandomOrder
from spectune.search.samplers import Sampled
from spectune.search.staged import Staged

__all__ = ["Grid", "Guided", "Incremental", "RandomOrder", "Sampled", "Staged"]
