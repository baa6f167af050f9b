"""Plans: what would be tried, with and without an earlier campaign in the ledger."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.search.simulate import decide, events, opened
from bench.search.surfaces import Surface, random_surfaces
from spectune.assemble.campaigns import Prepared
from spectune.assemble.planning import Earlier, earlier, plan
from spectune.domain.candidate import Candidate, Method
from spectune.domain.events import CampaignEnded, CampaignOpened, Decided
from spectune.domain.history import History
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Proposal
from spectune.domain.spec import BudgetSpec, CandidateSpec, ObjectiveSpec, SearchSpec
from spectune.domain.trial import Purpose
from spectune.domain.verdict import Conclusion
from spectune.domain.workload import Level
from spectune.engines.llamacpp.adapter import LlamaCpp
from spectune.ledger.store import SqlLedger
from spectune.search.staged import at_depth
from spectune.workload import builtin_source

SURFACE = random_surfaces(1, seed=3)[0]
LEVELS = SURFACE.spec.workload.concurrency
SPACE = SURFACE.spec.search.speculation[0]


def start(surface: Surface = SURFACE) -> CampaignOpened:
    """A campaign's opening event with what tells models and machines apart."""
    event = opened(surface).opened
    return replace(event, provenance=replace(event.provenance, files={"model": "sha-1"}))


def prepared(**changes: object) -> Prepared:
    event = start()
    spec = replace(SURFACE.spec, name="new", budget=BudgetSpec(confirm_pairs=2), **changes)  # type: ignore[arg-type]
    prompts = builtin_source(seed=1)
    provenance = replace(event.provenance, workload=prompts.info)
    service = replace(event.service, model=__file__)  # a file that has a size
    return Prepared(spec, LlamaCpp(), service, Candidate(), {}, prompts, (), provenance)


def write(ledger: SqlLedger, event: CampaignOpened, finished: bool = True, depths: tuple[int, ...] = (2,)) -> str:
    """A campaign of two baselines and a few depths of the first method."""
    name = ledger.open(event)
    history, rng = History(event), np.random.default_rng(1)
    for candidate in (Candidate(), Candidate(), *(at_depth(Candidate(), SPACE, depth) for depth in depths)):
        purpose = Purpose.EXPLORE if candidate.speculation.depth else Purpose.BASELINE
        made = list(events(SURFACE, history, Proposal(candidate, purpose, ""), 0.01, rng))
        for step in made:
            history = history.then(step)
        made.append(Decided(history.spent_s, max(history.trials), decide(SURFACE, history, 0.01)))
        history = history.then(made[-1])
        for step in made:
            ledger.append(name, step)
    if finished:
        ledger.append(name, CampaignEnded(1.0, Conclusion(Candidate().id, False, "")))
    return name


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    with SqlLedger.open_path(tmp_path / "ledger.sqlite") as opened_ledger:
        yield opened_ledger


def named(event: CampaignOpened, name: str) -> CampaignOpened:
    return replace(event, spec=replace(event.spec, name=name))


def test_before_any_trial_nothing_is_forecast_and_the_plan_says_so() -> None:
    told = plan(prepared())
    assert told["to try"] == [
        at_depth(Candidate(), space, depth).label for space in SURFACE.spec.search.speculation for depth in space.depths
    ]
    assert str(told["forecast"]).startswith("none yet: nothing was measured")
    assert re.fullmatch(
        r"about \d+ minutes of measuring for \d+ launches, and the starts of the server", str(told["time"])
    )
    assert told["search"] == "guided"


def test_an_earlier_campaign_is_a_forecast_marked_as_no_result(ledger: SqlLedger) -> None:
    name = write(ledger, start())
    new = prepared()
    known = earlier(ledger, new)
    assert known is not None
    assert known.campaign == name
    told = plan(new, known)
    first = [line for line in told["to try"] if line.startswith(SPACE.method.value + " k=")]
    assert len(first) >= len(SPACE.depths)
    assert all(
        re.search(r": [+-]\d+\.\d % \([+-].* to [+-].*\) expected$", line) for line in first[: len(SPACE.depths)]
    )
    assert f"from campaign {name} (3 trials, engine 0)" in str(told["forecast"])
    assert "no result" in str(told["forecast"])
    assert str(told["time"]).endswith("as long as they took earlier")


def test_the_same_name_goes_before_a_newer_one(ledger: SqlLedger) -> None:
    own = write(ledger, named(start(), "new"))
    other = write(ledger, named(start(), "other"))
    known = earlier(ledger, prepared())
    assert known is not None
    assert known.campaign == own != other


def test_unfinished_and_unlike_campaigns_are_passed_over(ledger: SqlLedger) -> None:
    event = start()
    provenance = event.provenance
    write(ledger, event, finished=False)
    for unlike in (
        replace(event, service=replace(event.service, engine="sglang")),
        replace(event, provenance=replace(provenance, files={"model": "sha-2"})),
        replace(event, provenance=replace(provenance, simulated="")),
        replace(event, provenance=replace(provenance, hardware=replace(provenance.hardware, gpus=("H200",)))),
    ):
        write(ledger, unlike)
    assert earlier(ledger, prepared()) is None


def test_what_earlier_trials_do_not_tell_is_not_made_up() -> None:
    history = History(start())
    told = plan(prepared(), Earlier("old", history))
    assert str(told["forecast"]).startswith("none: campaign old (0 trials, engine 0) measured nothing that tells")
    assert not any("expected" in line for line in told["to try"])


def test_goodput_has_no_forecast(ledger: SqlLedger) -> None:
    write(ledger, start())
    new = prepared(objective=ObjectiveSpec(maximise=MetricName.GOODPUT, slo_ttft_s=2.0))
    told = plan(new, earlier(ledger, new))
    assert told["forecast"] == "none: forecasts are of speed, and goodput does not follow from it"
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
