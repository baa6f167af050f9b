"""Strategies: what to try next."""

from spectune.search.staged import Staged

__all__ = ["Staged"]
