from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.candidate import Candidate
from spectune.domain.finding import Status
from spectune.domain.measurement import Doubt
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Cell, Level, Sampling
from spectune.verify import soundness
from tests.verify.builders import BASELINE, DRAFT, asked, cell, loaded

OK, UNKNOWN = Status.OK, Status.UNKNOWN


def doubted(*names: str) -> MeasuredCell:
    return cell(doubts=tuple(Doubt(name, f"{name} was seen", "Measure again.") for name in names))


CLEAN = doubted()
THREADS = Candidate(knobs={"threads": 4})


@pytest.mark.parametrize(
    ("cells", "candidate", "status"),
    [
        ((CLEAN,), DRAFT, OK),
        ((), DRAFT, UNKNOWN),
        # Another load than the one that was asked: in any cell, whatever is tried.
        ((CLEAN, CLEAN, doubted("client-late", "prefix-cache-hit")), DRAFT, UNKNOWN),
        ((CLEAN, CLEAN, doubted("tokens-differ-from-server")), THREADS, UNKNOWN),
        ((CLEAN, doubted("load-not-reached")), BASELINE, UNKNOWN),
        ((CLEAN, doubted("client-blocked")), DRAFT, UNKNOWN),
        # Text that is easy to draft: where drafting differs, and in more than half of the cells.
        ((CLEAN, doubted("looping-answers"), doubted("looping-answers")), DRAFT, UNKNOWN),
        ((CLEAN, doubted("looping-answers")), DRAFT, OK),
        ((doubted("forced-length"),), DRAFT, OK),
        ((doubted("looping-answers"),), BASELINE, OK),
        # A single request: in more than half of the cells.
        ((doubted("few-requests"),), DRAFT, UNKNOWN),
        ((doubted("few-requests"),), THREADS, UNKNOWN),
        ((doubted("few-requests"), CLEAN), DRAFT, OK),
        # The machine's: all candidates have them alike.
        ((doubted("busy-host", "drift", "client-late", "client-busy", "same-answers"),), DRAFT, OK),
    ],
)
def test_measured_soundly(cells: tuple[MeasuredCell, ...], candidate: Candidate, status: Status) -> None:
    assert soundness.measured_soundly(asked(candidate), loaded(*cells)).status is status


def test_who_asks_for_answers_past_their_end_gets_loops() -> None:
    wanted = replace(asked(DRAFT), cells=(Cell(Level(1), Sampling(0.0, ignore_eos=True)),))
    assert soundness.measured_soundly(wanted, loaded(doubted("looping-answers", "forced-length"))).status is OK


def test_the_doubt_and_its_cell_are_named() -> None:
    found = soundness.measured_soundly(asked(), loaded(CLEAN, doubted("client-late", "prefix-cache-hit")))
    assert found.seen == "cell 2: prefix-cache-hit was seen (prefix-cache-hit)"
