"""What may differ between two arms although nobody asked."""

from __future__ import annotations

from dataclasses import replace

from spectune.domain.asked import Asked
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Adjustment, Capacity, Meaning
from spectune.domain.knobs import Settings
from spectune.verify.observed import Observed
from tests.verify.builders import BASELINE, asked, seen
from tests.verify.cases.case import Cases, ok, unknown, violated

MTP = Candidate(Speculation(Method.MTP, 2))
NGRAM = Candidate(Speculation(Method.NGRAM, 3))
LARGER_PAGES = Candidate(knobs={"page-size": 64})
OVERLAP_OFF = Adjustment("overlap-off", "Non-overlap (synchronous) spec v2 is used", Meaning.CHANGED, "no overlap")
PAGES = Adjustment("other", "page_size: something was done to it", Meaning.CHANGED, "the kernels want it")
OVERLAPS, TAKES_TURNS = {"disable-overlap-schedule": False}, {"disable-overlap-schedule": True}
AHEAD, IN_STEP = {"async-scheduling": True}, {"async-scheduling": False}


def beside(settings: Settings | None, engine: str = "sglang", candidate: Candidate = MTP) -> Asked:
    """A candidate whose baseline runs these settings."""
    return asked(candidate, (), baseline_settings=settings, engine=engine)


def runs(settings: Settings, *adjustments: Adjustment) -> Observed:
    return seen(settings=settings, adjustments=adjustments)


def graphs(covered: int | None, running: int | None = 16) -> Observed:
    return seen(capacity=Capacity(max_running=running, graph_requests=covered))


FIRST, SERVICE = asked(MTP, (), engine="sglang"), asked(BASELINE, (), engine="sglang")


def before(covered: int | None) -> Asked:
    """A candidate whose baseline's graphs cover so many requests."""
    return replace(FIRST, baseline_capacity=Capacity(graph_requests=covered))


CASES: Cases = {
    "scheduler-parity": (
        ok(beside({"page-size": 1, "tp-size": 1}), runs({"page-size": 1, "tp-size": 1})),
        ok(beside({"page-size": 1}), runs({"page-size": "1", "mem-fraction-static": 0.8})),
        violated(beside({"disable-radix-cache": False}), runs({"disable-radix-cache": True})),
        violated(beside(OVERLAPS), runs(TAKES_TURNS)),
        ok(beside(OVERLAPS, candidate=NGRAM), runs(TAKES_TURNS)),
        ok(beside(OVERLAPS), runs(TAKES_TURNS, OVERLAP_OFF)),
        ok(beside({"page-size": 1}), runs({"page-size": 64}, PAGES), "page-size is 64, in the baseline 1: the kernels"),
        violated(beside({"page-size": 1}), runs({"page-size": 64}, OVERLAP_OFF), "page-size is 64, in the baseline 1"),
        unknown(beside({"page-size": 1}, candidate=LARGER_PAGES), runs({"page-size": 64})),
        unknown(beside({"page-size": 1, "dtype": "auto"}), runs({"page-size": 1})),
        unknown(beside({"mem-fraction-static": 0.9}), runs({"mem-fraction-static": 0.8})),
        unknown(beside(None), runs({"page-size": 64})),
        unknown(beside({}), runs({})),
        unknown(beside({"page-size": 1}, "unheard-of"), runs({"page-size": 64})),
        ok(beside(AHEAD, "vllm", NGRAM), runs(IN_STEP)),
        violated(beside(AHEAD, "vllm"), runs(IN_STEP)),
        violated(beside({"threads": 2}, "llama.cpp"), runs({"threads": 1})),
    ),
    "graph-cover": (
        ok(FIRST, graphs(4)),
        violated(FIRST, graphs(3)),
        violated(FIRST, graphs(0)),
        ok(FIRST, graphs(2, running=2)),
        unknown(FIRST, graphs(None)),
        unknown(before(8), graphs(None)),
        ok(before(None), graphs(None)),
        violated(before(8), graphs(2)),
        ok(before(2), graphs(2)),
        violated(before(2), graphs(1)),
        ok(SERVICE, graphs(2)),
        ok(SERVICE, graphs(None)),
    ),
}
