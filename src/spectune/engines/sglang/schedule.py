"""From measured depths to the JSON file of SGLang's adaptive speculation.

SGLang looks up the entry with the largest batch size that is not above the running one (the smallest entry below all),
and changes the depth between that entry's candidate steps after the acceptance it sees. 0 steps draft nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from spectune.domain.errors import InputError

MOST_STEPS = 64
"""Above this SGLang would size its buffers for drafts that no model accepts; measured depths are far below."""


@dataclass(frozen=True, slots=True)
class BatchSteps:
    """What was found best at one batch size.

    Attributes:
        batch: requests in a decode step, from which the entry counts.
        best: depth that won; 0 is no speculation.
        others: depths that SGLang may change to as well; none pins the depth.
    """

    batch: int
    best: int
    others: tuple[int, ...] = ()


def adaptive_config(measured: Iterable[BatchSteps]) -> str:
    """The text of a file for --speculative-adaptive-config, read alike by 0.5.15 and 0.5.23.

    An entry with several depths keeps SGLang's own hysteresis (none up, 0.25 down at batch size 1, else none), so that
    a schedule differs from SGLang's built-in one by what was measured alone. Neighbouring entries with the same depths
    are one entry.

    Raises:
        InputError: no entries, a batch size below 1 or twice, a depth outside 0 to MOST_STEPS, or nothing but 0.
    """
    rows = sorted(measured, key=lambda row: row.batch)
    if not rows:
        raise InputError("adaptive schedule: no batch size was measured", "Measure at least one level.")
    seen: set[int] = set()
    entries: dict[str, dict[str, object]] = {}
    last: list[int] = []
    for row in rows:
        steps = _steps(row)
        if row.batch in seen:
            raise InputError(f"adaptive schedule: batch size {row.batch} is given twice", "Give each one depth.")
        seen.add(row.batch)
        if steps != last:
            entries[str(row.batch)] = _entry(row.batch, steps)
        last = steps
    if not any(any(_steps(row)) for row in rows):
        raise InputError(
            "adaptive schedule: the best depth is 0 everywhere", "Run without speculation: that is what it says."
        )
    return json.dumps(entries, indent=2) + "\n"


def first_steps(measured: Iterable[BatchSteps]) -> int:
    """A depth that is among the candidate steps, for --speculative-num-steps: the best of the smallest batch size with
    drafts at all. SGLang ends at start with a depth that is in no entry.

    Raises:
        InputError: when no entry drafts.
    """
    drafting = [row for row in sorted(measured, key=lambda row: row.batch) if row.best > 0]
    if not drafting:
        raise InputError("adaptive schedule: the best depth is 0 everywhere", "Run without speculation.")
    return drafting[0].best


def _steps(row: BatchSteps) -> list[int]:
    if row.batch < 1:
        raise InputError(f"adaptive schedule: batch size must be at least 1, got {row.batch}")
    steps = sorted({row.best, *row.others})
    for depth in steps:
        if not 0 <= depth <= MOST_STEPS:
            raise InputError(
                f"adaptive schedule: depth must be 0 to {MOST_STEPS} at batch size {row.batch}, got {depth}"
            )
    return steps


def _entry(batch: int, steps: list[int]) -> dict[str, object]:
    if len(steps) == 1:
        return {"candidate_steps": steps}
    down = -0.25 if batch == 1 else 0.0
    return {"candidate_steps": steps, "up_hysteresis": 0.0, "down_hysteresis": down, "ceiling_coeff": 0}
