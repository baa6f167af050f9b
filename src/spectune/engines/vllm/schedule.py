"""From measured depths to vLLM's schedule of depths, num_speculative_tokens_per_batch_size.

A schedule is a list of [first, last, depth]: the depth for steps with so many requests, both ends included. vLLM wants
it to begin at 1 and not to overlap; sizes between and beyond the ranges keep the depth of the range before them, and a
depth of 0 drafts nothing. No entry may be deeper than num_speculative_tokens, to which vLLM would cut it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass

from spectune.domain.errors import InputError
from spectune.engines.vllm.speckeys import SCHEDULE

MOST_DEPTH = 64
"""Deeper than any draft that is accepted."""


@dataclass(frozen=True, slots=True)
class BatchDepth:
    """What was found best at one batch size.

    Attributes:
        batch: requests in a decode step, from which the entry counts.
        depth: that won; 0 is no speculation.
    """

    batch: int
    depth: int


def schedule(measured: Iterable[BatchDepth], largest: int) -> str:
    """The value of num_speculative_tokens_per_batch_size.

    Each measured batch size counts up to the next one; the smallest also counts for all below it. Neighbours with the
    same depth are one range.

    Args:
        largest: requests that run at the same time (max-num-seqs), where the last range ends.

    Raises:
        InputError: no batch size, one below 1, above `largest` or given twice, a depth outside 0 to MOST_DEPTH, or one
            depth everywhere, which is no schedule.
    """
    rows = sorted(measured, key=lambda row: row.batch)
    if not rows:
        raise InputError("schedule of depths: no batch size was measured", "Measure at least two levels.")
    ranges: list[list[int]] = []
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        _check(row, largest)
        if following is not None and following.batch == row.batch:
            raise InputError(f"schedule of depths: batch size {row.batch} is given twice", "Give each one depth.")
        last = following.batch - 1 if following else largest
        if ranges and ranges[-1][2] == row.depth:
            ranges[-1][1] = last
        else:
            ranges.append([row.batch if ranges else 1, last, row.depth])
    if len(ranges) == 1:
        raise InputError(
            f"schedule of depths: the best depth is {rows[0].depth} everywhere",
            "Give that depth alone." if rows[0].depth else "Run without speculation: that is what it says.",
        )
    return json.dumps(ranges)


def deepest(value: str) -> int:
    """num_speculative_tokens for a schedule: its greatest depth.

    Raises:
        InputError: as `parse`.
    """
    return max(depth for _, _, depth in parse(value, "schedule of depths"))


def parse(value: str, where: str) -> tuple[tuple[int, int, int], ...]:
    """A schedule's ranges, ascending.

    Raises:
        InputError: what vLLM would refuse, and what drafts nothing anywhere.
    """
    what = f"{where}: '{SCHEDULE}'"
    example = "For example [[1, 4, 3], [5, 16, 1]]."
    try:
        rows = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} must be JSON, got '{value}' ({error})", example) from None
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{what} must be a list of [first, last, depth], got '{value}'", example)
    ranges: list[tuple[int, int, int]] = []
    for row in rows:
        numbers = [cell for cell in row if type(cell) is int] if isinstance(row, list) else []
        if len(numbers) != 3 or len(row) != 3:
            raise InputError(f"{what}: each entry is [first, last, depth] in whole numbers, got {row}", example)
        first, last, depth = numbers
        if not 1 <= first <= last:
            raise InputError(f"{what}: a range must run upwards from at least 1, got {row}", example)
        if depth < 0:
            raise InputError(f"{what}: a depth must be at least 0, got {row}", example)
        ranges.append((first, last, depth))
    ranges.sort()
    if ranges[0][0] != 1:
        raise InputError(f"{what} must begin at 1, it begins at {ranges[0][0]}", example)
    for before, after in itertools.pairwise(ranges):
        if after[0] <= before[1]:
            raise InputError(f"{what}: {list(before)} and {list(after)} overlap", example)
    if not any(depth for _, _, depth in ranges):
        raise InputError(f"{what} drafts nothing at any size", "Run without speculation: that is what it says.")
    return tuple(ranges)


def _check(row: BatchDepth, largest: int) -> None:
    if not 1 <= row.batch <= largest:
        raise InputError(
            f"schedule of depths: batch size must be 1 to {largest}, got {row.batch}",
            "Raise max-num-seqs, or leave the level out.",
        )
    if not 0 <= row.depth <= MOST_DEPTH:
        raise InputError(
            f"schedule of depths: depth must be 0 to {MOST_DEPTH} at batch size {row.batch}, got {row.depth}"
        )
