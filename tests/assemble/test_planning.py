"""What `check` says of a campaign."""

from __future__ import annotations

import re
from dataclasses import replace

from spectune.assemble.planning import plan
from spectune.domain.candidate import Candidate, Method
from spectune.domain.metrics import MetricName
from spectune.domain.spec import BudgetSpec, CandidateSpec, ObjectiveSpec, SearchSpec
from spectune.domain.workload import Level
from spectune.search.staged import at_depth
from tests.assemble.earlier import SURFACE, prepared

LEVELS = SURFACE.spec.workload.concurrency


def test_every_candidate_is_named_and_the_cost_is_told() -> None:
    told = plan(prepared())
    assert told["to try"] == [
        at_depth(Candidate(), space, depth).label for space in SURFACE.spec.search.speculation for depth in space.depths
    ]
    assert re.fullmatch(
        r"about \d+ minutes of measuring for \d+ launches, and the server's starts and checks", str(told["time"])
    )
    assert told["search"] == "guided"


def test_the_bounds_of_goodput_are_told() -> None:
    told = plan(prepared(objective=ObjectiveSpec(maximise=MetricName.GOODPUT, slo_ttft_s=2.0)))
    assert str(told["objective"]).startswith("goodput_requests_s and first token within 2 s; ")


def test_what_cannot_run_and_what_runs_already_is_named() -> None:
    search = SearchSpec(candidates=(CandidateSpec(), CandidateSpec(Method.NGRAM, 4)), knobs={"threads": (1, 2)})
    new = replace(prepared(search=search), pruned={"ngram k=4": "no such method here"})
    assert plan(new)["to try"] == [
        "none (what the service does already)",
        "ngram k=4 (cannot run: no such method here)",
        "threads=1, on the best so far",
        "threads=2, on the best so far",
    ]


def test_the_objectives_shares_are_told() -> None:
    quiet, busy = (Level(users).label for users in (LEVELS[0], LEVELS[-1]))
    new = prepared(objective=ObjectiveSpec(weights={LEVELS[0]: 0.7, LEVELS[-1]: 0.3}))
    assert plan(new)["objective"] == f"per_user_tok_s; {quiet} 70 %, {busy} 30 %"


def test_a_budget_that_is_too_small_is_told() -> None:
    known = prepared()
    new = replace(known, spec=replace(known.spec, budget=BudgetSpec(minutes=1, cell_seconds=60)))
    assert str(plan(new)["time"]).endswith("more than budget.minutes (1) allows: not all will be tried")


def test_memory_is_told_of_this_machine_only() -> None:
    here = prepared()
    there = replace(here, spec=replace(here.spec, service=replace(here.spec.service, remote="box")))
    assert "memory are free" in str(plan(here)["model"])
    assert "free" not in str(plan(there)["model"])
