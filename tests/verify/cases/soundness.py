"""Doubts that keep a winner from resting on a measurement, and doubts that do not."""

from __future__ import annotations

from dataclasses import replace

from spectune.domain.candidate import Candidate
from spectune.domain.measurement import Doubt
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Cell, Level, Sampling
from tests.verify.builders import BASELINE, DRAFT, asked, cell, loaded
from tests.verify.cases.case import Cases, ok, unknown


def doubted(*names: str) -> MeasuredCell:
    return cell(doubts=tuple(Doubt(name, f"{name} was seen", "Measure again.") for name in names))


CLEAN, LOOPS, FEW = doubted(), doubted("looping-answers"), doubted("few-requests")
SERVICE, THREADS = asked(BASELINE), asked(Candidate(knobs={"threads": 4}))
FORCED = replace(asked(DRAFT), cells=(Cell(Level(1), Sampling(0.0, ignore_eos=True)),))
"""Who asks for answers past their end gets loops."""

CASES: Cases = {
    "measured-soundly": (
        ok(asked(), loaded(CLEAN)),
        unknown(asked(), loaded()),
        # Another load than the one that was asked: in any cell, whatever is tried.
        unknown(
            asked(),
            loaded(CLEAN, CLEAN, doubted("client-late", "prefix-cache-hit")),
            "cell 3: prefix-cache-hit was seen (prefix-cache-hit)",
        ),
        unknown(THREADS, loaded(CLEAN, CLEAN, doubted("tokens-differ-from-server"))),
        unknown(SERVICE, loaded(CLEAN, doubted("load-not-reached"))),
        unknown(asked(), loaded(CLEAN, doubted("client-blocked"))),
        # Text that is easy to draft: where drafting differs, and in more than half of the cells.
        unknown(asked(), loaded(CLEAN, LOOPS, LOOPS)),
        ok(asked(), loaded(CLEAN, LOOPS)),
        ok(asked(), loaded(doubted("forced-length"))),
        ok(FORCED, loaded(doubted("looping-answers", "forced-length"))),
        ok(SERVICE, loaded(LOOPS)),
        # A single request: in more than half of the cells.
        unknown(asked(), loaded(FEW)),
        unknown(THREADS, loaded(FEW)),
        ok(asked(), loaded(FEW, CLEAN)),
        # The machine's: all candidates have them alike.
        ok(asked(), loaded(doubted("busy-host", "drift", "client-late", "client-busy", "same-answers"))),
    ),
}
