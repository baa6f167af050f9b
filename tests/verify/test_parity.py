"""What may differ between two arms although nobody asked."""

from __future__ import annotations

import pytest

from spectune.domain.asked import Asked
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Adjustment, Capacity, Meaning
from spectune.domain.finding import Status
from spectune.domain.knobs import Settings
from spectune.verify.observed import Observed
from spectune.verify.parity import (
    ANNOUNCED_AS,
    CONSEQUENCES,
    SAME_IN_BOTH_ARMS,
    captures_graphs,
    differs,
    graph_cover,
    scheduler_parity,
)
from tests.verify.builders import BASELINE, RATE_CELL, asked, seen

OK, VIOLATED, UNKNOWN = Status.OK, Status.VIOLATED, Status.UNKNOWN
MTP = Candidate(Speculation(Method.MTP, 2))
NGRAM = Candidate(Speculation(Method.NGRAM, 3))
OVERLAP_OFF = Adjustment("overlap-off", "Non-overlap (synchronous) spec v2 is used", Meaning.CHANGED, "no overlap")
PAGES = Adjustment("other", "page_size: something was done to it", Meaning.CHANGED, "the kernels want it")


def pair(
    before: Settings | None, now: Settings, *, engine: str = "sglang", candidate: Candidate = MTP, **more: object
) -> tuple[Asked, Observed]:
    changes = more.get("adjustments", ())
    assert isinstance(changes, tuple)
    wanted = asked(candidate, (), baseline_settings=before, engine=engine)
    return wanted, seen(settings=now, adjustments=changes)


@pytest.mark.parametrize(
    ("case", "status"),
    [
        (pair({"page-size": 1, "tp-size": 1}, {"page-size": 1, "tp-size": 1}), OK),
        (pair({"page-size": 1}, {"page-size": "1", "mem-fraction-static": 0.8}), OK),
        (pair({"disable-radix-cache": False}, {"disable-radix-cache": True}), VIOLATED),
        (pair({"disable-overlap-schedule": False}, {"disable-overlap-schedule": True}), VIOLATED),
        (pair({"disable-overlap-schedule": False}, {"disable-overlap-schedule": True}, candidate=NGRAM), OK),
        (
            pair({"disable-overlap-schedule": False}, {"disable-overlap-schedule": True}, adjustments=(OVERLAP_OFF,)),
            OK,
        ),
        (pair({"page-size": 1}, {"page-size": 64}, adjustments=(PAGES,)), OK),
        (pair({"page-size": 1}, {"page-size": 64}, adjustments=(OVERLAP_OFF,)), VIOLATED),
        (pair({"page-size": 1}, {"page-size": 64}, candidate=Candidate(knobs={"page-size": 64})), UNKNOWN),
        (pair({"page-size": 1, "dtype": "auto"}, {"page-size": 1}), UNKNOWN),
        (pair({"mem-fraction-static": 0.9}, {"mem-fraction-static": 0.8}), UNKNOWN),
        (pair(None, {"page-size": 64}), UNKNOWN),
        (pair({}, {}), UNKNOWN),
        (pair({"page-size": 1}, {"page-size": 64}, engine="unheard-of"), UNKNOWN),
        (pair({"async-scheduling": True}, {"async-scheduling": False}, engine="vllm", candidate=NGRAM), OK),
        (pair({"async-scheduling": True}, {"async-scheduling": False}, engine="vllm"), VIOLATED),
        (pair({"threads": 2}, {"threads": 1}, engine="llama.cpp"), VIOLATED),
    ],
)
def test_scheduler_parity(case: tuple[Asked, Observed], status: Status) -> None:
    assert scheduler_parity(*case).status is status


def test_the_baseline_has_no_other_arm() -> None:
    assert differs(pair({}, {})[0])
    assert not differs(pair({}, {}, candidate=BASELINE)[0])


def test_both_values_and_the_reason_are_named() -> None:
    found = scheduler_parity(*pair({"page-size": 1}, {"page-size": 64}))
    assert found.seen == "page-size is 64, in the baseline 1"
    explained = scheduler_parity(*pair({"page-size": 1}, {"page-size": 64}, adjustments=(PAGES,)))
    assert explained.seen == "page-size is 64, in the baseline 1: the kernels want it"


def test_reasons_are_for_settings_that_are_compared() -> None:
    assert all(rule.name in SAME_IN_BOTH_ARMS[rule.engine] for rule in CONSEQUENCES)
    assert all(any(name in names for names in SAME_IN_BOTH_ARMS.values()) for name in ANNOUNCED_AS)


def graphs(covered: int | None, running: int | None = 16) -> Observed:
    return seen(capacity=Capacity(max_running=running, graph_requests=covered))


def before(covered: int | None) -> Asked:
    return asked(MTP, (), engine="sglang", baseline_capacity=Capacity(graph_requests=covered))


FIRST, SERVICE = asked(MTP, (), engine="sglang"), asked(BASELINE, (), engine="sglang")


@pytest.mark.parametrize(
    ("wanted", "observed", "status"),
    [
        (FIRST, graphs(4), OK),
        (FIRST, graphs(3), VIOLATED),
        (FIRST, graphs(0), VIOLATED),
        (FIRST, graphs(2, running=2), OK),
        (FIRST, graphs(None), UNKNOWN),
        (before(8), graphs(None), UNKNOWN),
        (before(None), graphs(None), OK),
        (before(8), graphs(2), VIOLATED),
        (before(2), graphs(2), OK),
        (before(2), graphs(1), VIOLATED),
        (SERVICE, graphs(2), OK),
        (SERVICE, graphs(None), OK),
    ],
)
def test_graph_cover(wanted: Asked, observed: Observed, status: Status) -> None:
    assert graph_cover(wanted, observed).status is status


def test_graphs_are_asked_about_where_there_are_graphs_and_users() -> None:
    assert captures_graphs(FIRST)
    assert not captures_graphs(asked())
    assert not captures_graphs(asked(MTP, (), engine="sglang", cells=(RATE_CELL,)))
