"""Acceptance of drafts in one request, from the meta_info that SGLang sends with its last chunk.

SGLang sends it with /generate, and with chat answers that ask for it. The names changed between versions
(spec_accepted_drafts, spec_proposed_drafts and spec_accept_histogram became spec_num_correct_drafts,
spec_num_proposed_drafts and spec_correct_drafts_histogram), so each figure is looked up under all of its names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts")
_DRAFTED = ("spec_num_proposed_drafts", "spec_proposed_drafts")
_VERIFIES = ("spec_verify_ct",)
_HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class PerRequest:
    """Drafts of one request, tokens.

    Attributes:
        drafts: verify steps.
        drafted: tokens drafted; None under an adaptive depth, where SGLang multiplies the steps by the first depth.
        accepted: drafted tokens accepted, the bonus token not counted.
        accepted_per_position: verify steps in which at least i+1 drafted tokens were accepted, for i = 0, 1, ...; empty
            where SGLang sends no histogram. For a draft tree the position is the depth in the tree.
    """

    drafts: int
    drafted: int | None
    accepted: int
    accepted_per_position: tuple[int, ...] = ()


def acceptance_from_meta(meta: Mapping[str, object], adaptive: bool = False) -> PerRequest | None:
    """Reads the figures of a finished request; None where it was not speculated or does not tell.

    Args:
        meta: `meta_info`, or B's `spec_tokens_details`.
        adaptive: whether the server changes its depth while serving; its drafted tokens are not believed then.
    """
    histogram = _histogram(meta)
    accepted = _first(meta, _ACCEPTED)
    drafts = _first(meta, _VERIFIES)
    if histogram:
        # The histogram counts every verify step once, so it stands in for sums that a version leaves out.
        drafts = sum(histogram) if drafts is None else drafts
        counted = sum(tokens * steps for tokens, steps in enumerate(histogram))
        accepted = counted if accepted is None else accepted
    if drafts is None or accepted is None or drafts < 1:
        return None
    return PerRequest(
        drafts=drafts,
        drafted=None if adaptive else _first(meta, _DRAFTED),
        accepted=accepted,
        accepted_per_position=_per_position(histogram) if sum(histogram) == drafts else (),
    )


def _per_position(histogram: tuple[int, ...]) -> tuple[int, ...]:
    """From steps with exactly n accepted tokens to steps with at least n, n = 1, 2, ..."""
    return tuple(sum(histogram[position:]) for position in range(1, len(histogram)))


def _histogram(meta: Mapping[str, object]) -> tuple[int, ...]:
    for name in _HISTOGRAM:
        value = meta.get(name)
        if isinstance(value, (list, tuple)) and 0 < len(value) <= _LONGEST:
            counts = [_count(item) for item in value]
            whole = tuple(count for count in counts if count is not None)
            return whole if len(whole) == len(counts) else ()
    return ()


def _first(meta: Mapping[str, object], names: tuple[str, ...]) -> int | None:
    return next((count for name in names if (count := _count(meta.get(name))) is not None), None)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
