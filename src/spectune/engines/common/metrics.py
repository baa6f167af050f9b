"""Reads /metrics pages."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from spectune.domain.deployment import Page


def samples(page: Page | None) -> tuple[Sample, ...]:
    """The finite samples of a page; none where it is missing, an error page or no metrics page."""
    if page is None or page.status != 200:
        return ()
    try:
        found = [sample for family in text_string_to_metric_families(page.body) for sample in family.samples]
    except Exception:  # The parser has no error type of its own and fails in many ways on other text.
        return ()
    return tuple(sample for sample in found if _is_finite(sample.value))


def _is_finite(value: float) -> bool:
    """The parser gives whole numbers of any length as they are, also beyond the largest float."""
    return abs(value) <= sys.float_info.max


def totals(found: Iterable[Sample], names: Mapping[str, str]) -> dict[str, int]:
    """Counters under short names, summed over their label sets: copies of the model, processes, sources. Those that are
    not on the page are absent."""
    sums: dict[str, float] = {}
    for sample in found:
        if sample.name in names:
            key = names[sample.name]
            sums[key] = sums.get(key, 0.0) + sample.value
    return {key: int(value) for key, value in sums.items()}


def by_position(found: Iterable[Sample], name: str) -> tuple[int, ...]:
    """A counter with the label "position", for position 0, 1, ..., summed over other labels; empty where one is
    missing."""
    sums: dict[str, float] = {}
    for sample in found:
        if sample.name == name:
            position = sample.labels.get("position", "")
            sums[position] = sums.get(position, 0.0) + sample.value
    listed = [sums.get(str(position)) for position in range(len(sums))]
    told = tuple(int(value) for value in listed if value is not None)
    return told if len(told) == len(listed) else ()
