"""What the noise is learnt from: differences between trials that deployments and time alone make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from spectune.domain.trial import Purpose, partners
from spectune.judge.contrast import Contrast, contrast
from spectune.judge.table import Floats, Ints, Table

Slices = tuple[Ints, Ints, Floats, Floats]
"""Cell index, domain index, mean and its variance of each slice."""


@dataclass(frozen=True, slots=True)
class Link:
    """One difference.

    Attributes:
        step: row of the table -> +1 or -1, its part in the difference.
        log: the difference overall.
        within: variance of it from the scatter over prompts.
        slices: the same by cell and domain.
        is_repeated: whether both ends were asked the same prompts; else what a candidate does to single prompts
            is in the scatter as well.
    """

    step: Mapping[int, float]
    log: float
    within: float
    slices: Slices
    is_repeated: bool


def links(table: Table) -> Iterator[Link]:
    """All of a table. Explorations are left out: a candidate is repeated because its exploration looked good, so that
    the repetition is expected to be slower."""
    yield from _repeats(table)
    yield from _pairs(table)


def _repeats(table: Table) -> Iterator[Link]:
    """Successive trials of the same candidate that share prompts, later - earlier."""
    latest: dict[str, int] = {}
    for row, trial in enumerate(table.trials):
        if trial.purpose is Purpose.EXPLORE:
            continue
        earlier = latest.get(table.ids[row])
        latest[table.ids[row]] = row
        both = _between(table, row, earlier) if earlier is not None else None
        gain = both.gain() if both is not None else None
        if both is not None and gain is not None and earlier is not None:
            yield Link({row: 1.0, earlier: -1.0}, gain.log, gain.within, both.slice_means(), True)


def _pairs(table: Table) -> Iterator[Link]:
    """Successive pairs of a confirmation that share no prompt, later difference - earlier one."""
    latest: dict[tuple[str, str], tuple[int, int]] = {}
    rows = {trial.number: row for row, trial in enumerate(table.trials)}
    known = ~np.isnan(table.logs)
    for first, second in partners(table.trials).items():
        if second < first or second not in rows:
            continue
        ours, theirs = sorted((rows[first], rows[second]), key=lambda row: table.ids[row])
        key = table.ids[ours], table.ids[theirs]
        before, latest[key] = latest.get(key), (ours, theirs)
        if before is None or (known[ours] & known[before[0]]).any():
            continue
        later, earlier = _between(table, ours, theirs), _between(table, *before)
        gains = [both.gain() if both is not None else None for both in (later, earlier)]
        if later is None or earlier is None or gains[0] is None or gains[1] is None:
            continue
        step = {ours: 1.0, theirs: -1.0, before[0]: -1.0, before[1]: 1.0}
        slices = _difference(later.slice_means(), earlier.slice_means())
        yield Link(step, gains[0].log - gains[1].log, gains[0].within + gains[1].within, slices, False)


def _between(table: Table, plus: int, minus: int) -> Contrast | None:
    groups = ["plus" if row == plus else "minus" if row == minus else "" for row in range(len(table.trials))]
    return contrast(table, groups, "plus", "minus")


def _difference(later: Slices, earlier: Slices) -> Slices:
    """Of the slices that both have."""
    place = {names: index for index, names in enumerate(zip(earlier[0], earlier[1], strict=True))}
    both = [(i, place[names]) for i, names in enumerate(zip(later[0], later[1], strict=True)) if names in place]
    a, b = np.array(both, dtype=np.intp).reshape(-1, 2).T
    return later[0][a], later[1][a], later[2][a] - earlier[2][b], later[3][a] + earlier[3][b]
