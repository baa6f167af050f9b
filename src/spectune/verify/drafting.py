"""Checks on how drafting went under load, from counts. Acceptance never ranks; here it only tells broken from sound."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scipy.special import bdtr

from spectune.domain.asked import Asked
from spectune.domain.candidate import Method
from spectune.domain.measurement import Outcome
from spectune.domain.trial import MeasuredCell
from spectune.verify.check import Result, ok, unknown, violated, worst
from spectune.verify.observed import Observed

ENOUGH_DRAFTS = 50
"""With fewer drafts nothing is said about a draft head."""
SOUND_FIRST = 0.10
"""A head that agrees with the target on fewer first tokens than this is broken, not weak."""
SURE = 0.01
"""Level of the exact one-sided binomial test that tells a broken head from an unlucky sample."""
SUSPICIOUS_RATE = 0.995
SUSPICIOUS_DRAFTS = 200

FROM_TEXT = frozenset({Method.NGRAM, Method.NGRAM_POOL, Method.SUFFIX})
"""Methods that draft from text already seen: few drafts are legitimate, and there is no head to be broken."""
POOLED = frozenset({Method.NGRAM_POOL, Method.SUFFIX})
"""Methods that carry text from one request to the next."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """Counts of one cell or of several.

    Attributes:
        drafts: verify steps with a draft; None where not told.
        drafted, accepted: tokens.
        first: drafts whose first token was accepted; None where not told.
    """

    drafts: int | None
    drafted: int
    accepted: int
    first: float | None = None

    def __add__(self, other: Drafting) -> Drafting:
        return Drafting(
            None if self.drafts is None or other.drafts is None else self.drafts + other.drafts,
            self.drafted + other.drafted,
            self.accepted + other.accepted,
            None if self.first is None or other.first is None else self.first + other.first,
        )


def drafting(cell: MeasuredCell) -> Drafting | None:
    """The counts of a cell: from its acceptance, else from raw counters, else from requests; None where none tells."""
    measurement = cell.measurement
    if (acceptance := measurement.acceptance) is not None:
        share = acceptance.per_position[0] if acceptance.per_position else math.nan
        first = share * acceptance.drafts if math.isfinite(share) else None
        return Drafting(acceptance.drafts, acceptance.drafted, acceptance.accepted, first)
    before, after = measurement.counters_before, measurement.counters_after
    if before and after and after.drafted is not None and before.drafted is not None:
        accepted = (after.accepted or 0) - (before.accepted or 0)
        drafts = None if after.drafts is None or before.drafts is None else after.drafts - before.drafts
        return Drafting(drafts, after.drafted - before.drafted, accepted)
    told = [record for record in cell.records if record.drafted is not None]
    if not told:
        return None
    return Drafting(None, sum(record.drafted or 0 for record in told), sum(record.accepted or 0 for record in told))


def _all(cells: Mapping[str, MeasuredCell]) -> dict[str, Drafting]:
    return {key: found for key, cell in cells.items() if (found := drafting(cell)) is not None}


def _total(counts: Iterable[Drafting]) -> Drafting:
    return sum(counts, Drafting(0, 0, 0, 0.0))


def happened(asked: Asked, observed: Observed) -> Result:
    """Whether tokens were drafted exactly when they should be."""
    wanted = "drafts in every cell" if asked.speculates else "no drafts"
    counts = _all(observed.cells)
    silent = sorted(key for key, count in counts.items() if count.drafted <= 0)
    total = _total(counts.values())
    if not asked.speculates:
        return _none_happened(wanted, observed, counts, total)
    if not counts:
        return unknown(wanted, "nothing was measured" if not observed.cells else "no count of drafts is told")
    if total.drafted <= 0:
        if not any(cell.measurement.requests.get(Outcome.OK) for cell in observed.cells.values()):
            return unknown(wanted, "no request was answered, so that nothing could be drafted")
        return violated(wanted, f"speculation never engaged: 0 tokens drafted in {len(counts)} cells")
    if silent and asked.candidate.speculation.method not in FROM_TEXT:
        return violated(wanted, f"speculation never engaged in {', '.join(silent)}")
    seen = f"{total.drafted} tokens drafted, {total.accepted} accepted" + (
        f"; none in {', '.join(silent)}, which text-based drafting allows" if silent else ""
    )
    return ok(wanted, seen)


def _none_happened(wanted: str, observed: Observed, counts: Mapping[str, Drafting], total: Drafting) -> Result:
    if total.drafted > 0:
        return violated(wanted, f"{total.drafted} tokens were drafted")
    if counts or observed.seen.speculating is False:
        return ok(wanted, "none")
    return unknown(wanted, "no count of drafts is told")


def depth_kept(asked: Asked, observed: Observed) -> Result:
    """A step can't draft more than k tokens: the mean per draft shows a depth that is larger than asked."""
    depth = asked.candidate.speculation.depth
    wanted = f"at most {depth} tokens a draft"
    total = _total(_all(observed.cells).values())
    if not total.drafts or total.drafts < 0:
        return unknown(wanted, "the number of drafts is not told")
    mean = total.drafted / total.drafts
    verdict = violated if mean > depth * 1.001 else ok
    return verdict(wanted, f"{mean:.2f} tokens a draft over {total.drafts} drafts")


def head_sound(asked: Asked, observed: Observed) -> Result:
    """Judges every cell that has enough drafts, else all cells together."""
    wanted = f"first drafted token accepted in at least {SOUND_FIRST:.0%} of drafts"
    counts = _all(observed.cells)
    depth = max(1, asked.candidate.speculation.depth)
    judged = {key: count for key, count in counts.items() if _steps(count, depth) >= ENOUGH_DRAFTS}
    if not judged:
        total = _total(counts.values())
        if _steps(total, depth) < ENOUGH_DRAFTS:
            return unknown(wanted, f"too few drafts to tell: {_steps(total, depth)}, not {ENOUGH_DRAFTS}")
        judged = {"all cells": total}
    return worst(_head(wanted, key, count, depth) for key, count in judged.items())


def _steps(count: Drafting, depth: int) -> int:
    """Drafts, or the fewest that can hold so many drafted tokens."""
    return count.drafted // depth if count.drafts is None else count.drafts


def _head(wanted: str, key: str, count: Drafting, depth: int) -> Result:
    """Without counts per position there are bounds: the first position is accepted at least as often as the mean
    position, and at most as often as there are accepted tokens."""
    steps = _steps(count, depth)
    if count.first is not None:
        low = high = count.first / steps
    else:
        low, high = count.accepted / max(count.drafted, 1), min(1.0, count.accepted / steps)
    seen = f"{key}: {low:.0%}" if low == high else f"{key}: {low:.0%} to {high:.0%}"
    seen += f" of {steps} drafts"
    if low >= SOUND_FIRST:
        return ok(wanted, seen)
    if high >= SOUND_FIRST:
        return unknown(wanted, f"{seen}; acceptance by position is not told")
    hits = min(max(round(high * steps), 0), steps)
    if bdtr(hits, steps, SOUND_FIRST) < SURE:
        return violated(wanted, f"{seen}: the draft head is broken")
    return unknown(wanted, f"{seen}, too few to be sure")


def not_suspicious(asked: Asked, observed: Observed) -> Result:
    """Near-perfect acceptance or repeated prompts where drafts come from earlier requests."""
    wanted = "drafts from unseen text"
    times = Counter(record.prompt_id for cell in observed.cells.values() for record in cell.records)
    repeated = sum(count > 1 for count in times.values())
    if repeated:
        return unknown(wanted, f"{repeated} prompts were sent more than once, and drafts come from earlier requests")
    counts = _all(observed.cells)
    if not counts:
        return unknown(wanted, "no count of drafts is told")
    total = _total(counts.values())
    steps = _steps(total, max(1, asked.candidate.speculation.depth))
    rate = total.accepted / total.drafted if total.drafted > 0 else 0.0
    seen = f"{rate:.1%} accepted over {steps} drafts"
    if rate > SUSPICIOUS_RATE and steps >= SUSPICIOUS_DRAFTS:
        return unknown(wanted, f"{seen}: the text was seen before, contaminated by repeated prompts")
    return ok(wanted, seen)
