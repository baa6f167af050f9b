"""Acceptance of drafts in one request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class PerRequest:
    """Drafts of one request, tokens.

    Attributes:
        drafts: verify steps, as the engine counts them: SGLang all, vLLM those that had a draft.
        drafted: tokens drafted; None where the engine does not tell, as SGLang under an adaptive depth.
        accepted: drafted tokens accepted, the bonus token not counted.
        accepted_per_position: verify steps in which at least i+1 drafted tokens were accepted, for i = 0, 1, ...; empty
            where the engine does not tell. For a draft tree the position is the depth in the tree.
    """

    drafts: int
    drafted: int | None
    accepted: int
    accepted_per_position: tuple[int, ...] = ()


def at_least(exactly: Sequence[int]) -> tuple[int, ...]:
    """From steps with exactly 0, 1, ... accepted tokens to steps with at least 1, 2, ..."""
    return tuple(accumulate(reversed(exactly[1:])))[::-1]
