"""Checks that the server lived through the load and served it."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from itertools import pairwise

from spectune.domain.asked import Asked
from spectune.domain.deployment import Counters
from spectune.domain.measurement import Outcome
from spectune.verify.check import Result, ok, unknown, violated, worst
from spectune.verify.identity import alive
from spectune.verify.observed import Observed

MOST_FAILED = 0.01
"""Largest share of requests that may fail."""
SHOWN = 200
"""Characters of a failed request's words that a finding quotes."""
HANGS = 2
"""So many unanswered requests at the end are no chance."""
_SILENT = frozenset({Outcome.TIMEOUT_FIRST, Outcome.TIMEOUT_IDLE, Outcome.TIMEOUT_CONNECT})
_CUT_BY_US = frozenset({Outcome.CANCELLED})


def survived(asked: Asked, observed: Observed) -> Result:
    """Whether the process still runs, and whether its counters show that it was not restarted in between."""
    wanted = "alive at the end, without a restart"
    found = alive(asked, observed)
    ordered = sorted(observed.cells.items(), key=lambda item: item[1].measurement.started_unix)
    moments = [
        (key, counters)
        for key, cell in ordered
        for counters in (cell.measurement.counters_before, cell.measurement.counters_after)
        if counters is not None
    ]
    fallen = {key: None for (_, old), (key, new) in pairwise(moments) if _fell(old, new)}
    parts = [Result(found.status, wanted, found.seen)]
    if fallen:
        parts.append(violated(wanted, f"counters fell back in {', '.join(fallen)}, so it was restarted"))
    return worst(parts)


def _fell(old: Counters, new: Counters) -> bool:
    """Whether any cumulative count is smaller than before."""
    pairs = ((getattr(old, f.name), getattr(new, f.name)) for f in fields(Counters))
    return any(isinstance(a, int) and isinstance(b, int) and b < a for a, b in pairs)


def no_failures(asked: Asked, observed: Observed) -> Result:
    """The share of requests that failed; those that the client itself cancelled are not counted."""
    wanted = f"at most {MOST_FAILED:.0%} of requests fail"
    ended: Counter[Outcome] = Counter()
    for cell in observed.cells.values():
        ended.update(cell.measurement.requests)
    del ended[Outcome.CANCELLED]
    total = ended.total()
    if total <= 0:
        return unknown(wanted, "no request ended")
    failed = {outcome: count for outcome, count in ended.items() if outcome is not Outcome.OK and count > 0}
    lost = sum(failed.values())
    kinds = ", ".join(f"{outcome.value}: {count}" for outcome, count in sorted(failed.items()))
    seen = f"{lost} of {total} failed" + (f" ({kinds})" if kinds else "")
    records = (record for cell in observed.cells.values() for record in cell.records)
    words = next((record.detail for record in records if record.outcome in failed and record.detail), "")
    seen += f": {words[:SHOWN]}" if words else ""
    return violated(wanted, seen) if lost > MOST_FAILED * total else ok(wanted, seen)


def sustained(asked: Asked, observed: Observed) -> Result:
    """Whether answers kept coming until the end: a server may be healthy and hang after a hundred requests."""
    wanted = "answers until the last request"
    records = sorted(
        (record for cell in observed.cells.values() for record in cell.records if record.outcome not in _CUT_BY_US),
        key=lambda record: record.sent_ns,
    )
    if not records:
        return unknown(wanted, "no record of a request was kept")
    silent = 0
    for record in reversed(records):
        if record.outcome not in _SILENT:
            break
        silent += 1
    served = sum(record.outcome is Outcome.OK for record in records)
    if silent >= HANGS:
        return violated(wanted, f"no answer to the last {silent} of {len(records)} requests: it hangs after {served}")
    return ok(wanted, f"{served} of {len(records)} requests answered, up to the end")
