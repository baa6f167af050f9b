"""Drafting under load."""

from __future__ import annotations

from dataclasses import replace

from spectune.domain.deployment import Counters
from spectune.domain.measurement import Acceptance, Outcome
from spectune.domain.trial import MeasuredCell
from tests.verify.builders import BASELINE, NGRAM, POOL, asked, cell, drafts, loaded, record, seen
from tests.verify.cases.case import Cases, ok, unknown, violated

GOOD = cell(drafts(100, 0.5, 0.7, 0.5, 0.3))
ZERO = cell(counters=(Counters(drafts=0, drafted=0, accepted=0), Counters(drafts=0, drafted=0, accepted=0)))
REFUSED = replace(ZERO, measurement=replace(ZERO.measurement, requests={Outcome.STREAM_ERROR: 40}))
COUNTED = cell(counters=(Counters(drafts=5, drafted=15, accepted=9), Counters(drafts=65, drafted=195, accepted=99)))
SENT = cell(records=(record("a", 90, 45), record("b", None), record("c", 90, 45)))
SILENT = cell(records=(record("a"), record("b")))
BROKEN = cell(drafts(200, 0.01, 0.02, 0.0, 0.0))
UNLUCKY = cell(drafts(30, 0.0, 0.0))
"""Few drafts, none of which was accepted."""
NONE = asked(BASELINE, ())
TEXT = asked(NGRAM, ())
POOLED = asked(POOL, ())


def pool_cell(rate: float, drafts_: int, *names: str) -> MeasuredCell:
    """So many drafts of the pool for these prompts, and the share of tokens that was accepted."""
    drafted = drafts_ * 64
    return replace(cell(Acceptance(drafts_, drafted, round(drafted * rate))), records=tuple(record(n) for n in names))


CASES: Cases = {
    "drafting-happened": (
        ok(asked(), loaded(GOOD, COUNTED, SENT)),
        violated(asked(), loaded(GOOD, ZERO), "never engaged in cell 2"),
        violated(asked(), loaded(ZERO, ZERO)),
        unknown(asked(), loaded(REFUSED, REFUSED), "no request was answered"),
        violated(asked(), loaded(ZERO, REFUSED)),
        unknown(asked(), loaded(SILENT)),
        unknown(asked(), loaded()),
        ok(TEXT, loaded(GOOD, ZERO)),
        violated(TEXT, loaded(ZERO, ZERO), "never engaged: 0 tokens"),
        ok(NONE, loaded(ZERO)),
        ok(NONE, loaded(SILENT, base=seen(speculating=False))),
        unknown(NONE, loaded(SILENT, base=seen(speculating=None))),
        violated(NONE, loaded(GOOD)),
    ),
    "depth-kept": (
        ok(asked(), loaded(GOOD)),
        violated(asked(), loaded(cell(drafts(100, 0.5, depth=4)))),
        ok(asked(), loaded(cell(drafts(100, 0.5, depth=1)))),
        unknown(asked(), loaded(SENT)),
        unknown(asked(), loaded()),
    ),
    "head-sound": (
        ok(asked(), loaded(GOOD)),
        violated(asked(), loaded(BROKEN)),
        violated(asked(), loaded(GOOD, BROKEN), "cell 2"),
        unknown(asked(), loaded(cell(drafts(60, 0.03, 0.08, 0.0, 0.0))), "too few to be sure"),
        unknown(asked(), loaded(cell(drafts(49, 0.01, 0.02, 0.0, 0.0))), "too few drafts"),
        violated(asked(), loaded(UNLUCKY, UNLUCKY), "all cells"),
        # Without counts by position the mean position is a bound from below, accepted tokens one from above.
        ok(asked(), loaded(COUNTED)),
        ok(asked(), loaded(SENT)),
        violated(asked(), loaded(cell(Acceptance(300, 900, 9)))),
        unknown(asked(), loaded(cell(Acceptance(300, 900, 60))), "by position is not told"),
        unknown(asked(), loaded(SILENT)),
        unknown(asked(), loaded()),
    ),
    "drafts-not-suspicious": (
        ok(POOLED, loaded(pool_cell(0.6, 300, "a", "b"))),
        unknown(POOLED, loaded(pool_cell(0.999, 300, "a", "b")), "seen before"),
        ok(POOLED, loaded(pool_cell(1.0, 199, "a", "b"))),
        unknown(POOLED, loaded(pool_cell(0.6, 300, "a"), pool_cell(0.6, 300, "a")), "sent more than once"),
        unknown(POOLED, loaded()),
        ok(POOLED, loaded(ZERO)),
    ),
}
