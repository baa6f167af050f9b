"""Acceptance of drafts, from differences of the server's counters and from per-request counts."""

from __future__ import annotations

from collections.abc import Iterable

from spectune.domain.deployment import Counters
from spectune.domain.measurement import Acceptance, RequestRecord


def from_counters(before: Counters | None, after: Counters | None) -> Acceptance | None:
    """Acceptance between two readings; None where the engine does not count, nothing was drafted, or the counters ran
    backwards (the server was restarted in between)."""
    if before is None or after is None:
        return None
    pairs = ((before.drafts, after.drafts), (before.drafted, after.drafted), (before.accepted, after.accepted))
    if any(old is None or new is None for old, new in pairs):
        return None
    drafts, drafted, accepted = ((new or 0) - (old or 0) for old, new in pairs)
    if drafts <= 0 or drafted <= 0 or accepted < 0:
        return None
    positions = after.accepted_per_position
    earlier = (*before.accepted_per_position, *(0 for _ in positions))
    shares = tuple((new - old) / drafts for new, old in zip(positions, earlier, strict=False))
    return Acceptance(drafts, drafted, accepted, shares, "difference of the server's counters")


def from_requests(records: Iterable[RequestRecord]) -> Acceptance | None:
    """Acceptance from the counts that came with each answer; None where none came.

    A verify step emits its accepted tokens and one more, so that a request made output - accepted steps; steps without
    a draft are among them, and an accept length from here is over all steps.
    """
    counted = [r for r in records if r.drafted is not None and r.accepted is not None and r.output_tokens is not None]
    drafted = sum(r.drafted or 0 for r in counted)
    accepted = sum(r.accepted or 0 for r in counted)
    steps = sum((r.output_tokens or 0) - (r.accepted or 0) for r in counted)
    if not drafted or steps <= 0:
        return None
    return Acceptance(steps, drafted, accepted, (), "per-request counts, over all steps")
