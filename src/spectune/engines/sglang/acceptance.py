"""Acceptance of drafts in one request, from the meta_info that SGLang sends with its last chunk.

SGLang sends it with /generate, and with chat answers that ask for it. The names changed between versions
(spec_accepted_drafts, spec_proposed_drafts and spec_accept_histogram became spec_num_correct_drafts,
spec_num_proposed_drafts and spec_correct_drafts_histogram), so each figure is looked up under all of its names.
"""

from __future__ import annotations

from collections.abc import Mapping

from spectune.engines.common.acceptance import PerRequest, at_least
from spectune.engines.common.pages import count, first

_ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts")
_DRAFTED = ("spec_num_proposed_drafts", "spec_proposed_drafts")
_VERIFIES = ("spec_verify_ct",)
_HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")
_LONGEST = 4096


def acceptance_from_meta(meta: Mapping[str, object], adaptive: bool = False) -> PerRequest | None:
    """Reads the figures of a finished request; None where it was not speculated or does not tell.

    Args:
        meta: `meta_info`, or B's `spec_tokens_details`.
        adaptive: whether the server changes its depth while serving; its drafted tokens are not believed then.
    """
    histogram = _histogram(meta)
    accepted = _told(meta, _ACCEPTED)
    drafts = _told(meta, _VERIFIES)
    if histogram:
        # The histogram counts every verify step once, so it stands in for sums that a version leaves out.
        drafts = sum(histogram) if drafts is None else drafts
        counted = sum(tokens * steps for tokens, steps in enumerate(histogram))
        accepted = counted if accepted is None else accepted
    if drafts is None or accepted is None or drafts < 1:
        return None
    return PerRequest(
        drafts=drafts,
        drafted=None if adaptive else _told(meta, _DRAFTED),
        accepted=accepted,
        accepted_per_position=at_least(histogram) if sum(histogram) == drafts else (),
    )


def _histogram(meta: Mapping[str, object]) -> tuple[int, ...]:
    for name in _HISTOGRAM:
        value = meta.get(name)
        if isinstance(value, (list, tuple)) and 0 < len(value) <= _LONGEST:
            counts = [count(item) for item in value]
            whole = tuple(number for number in counts if number is not None)
            return whole if len(whole) == len(counts) else ()
    return ()


def _told(meta: Mapping[str, object], names: tuple[str, ...]) -> int | None:
    return first(*(count(meta.get(name)) for name in names))
