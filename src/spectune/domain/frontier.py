"""The frontier: what can be had of per-user speed, aggregate speed and KV room, and what is beaten in all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Point:
    """One candidate at one load.

    Attributes:
        candidate: its id.
        group: what is compared with each other, for instance a level at one temperature.
        per_user: per-user speed, tok/s.
        aggregate: speed of all users together, tok/s.
        kv_tokens: tokens of KV room; None where the engine does not tell.
        dominated: whether another point of the group is at least as good in everything known of both, and better in
            something. `frontier` sets it.
    """

    candidate: str
    group: str
    per_user: float
    aggregate: float
    kv_tokens: int | None = None
    dominated: bool = False

    def dominates(self, other: Point) -> bool:
        """Whether this point is at least as good in everything known of both, and better in something. Groups are not
        looked at."""
        pairs = list(_pairs(self, other))
        return all(mine >= its for mine, its in pairs) and any(mine > its for mine, its in pairs)


def frontier(points: Iterable[Point]) -> tuple[Point, ...]:
    """The same points in the same order, each marked where another one of its group dominates it."""
    known = tuple(points)
    groups: dict[str, list[Point]] = {}
    for point in known:
        groups.setdefault(point.group, []).append(point)
    return tuple(
        replace(point, dominated=any(other.dominates(point) for other in groups[point.group])) for point in known
    )


def _pairs(one: Point, other: Point) -> Iterator[tuple[float, float]]:
    yield one.per_user, other.per_user
    yield one.aggregate, other.aggregate
    if one.kv_tokens is not None and other.kv_tokens is not None:
        yield one.kv_tokens, other.kv_tokens
