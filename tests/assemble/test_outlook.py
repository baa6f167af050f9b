"""What a campaign would do from here: with nothing measured, with earlier campaigns, and half done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spectune.assemble.campaigns import opening
from spectune.assemble.course import BY_MEASUREMENT, CONFIRMATION
from spectune.assemble.outlook import Outlook, foreseen, outlook
from spectune.assemble.transfer import priors
from spectune.domain.candidate import Candidate, Method
from spectune.domain.history import History
from spectune.domain.metrics import MetricName
from spectune.domain.spec import CandidateSpec, ObjectiveSpec, SearchSpec, WorkloadSpec
from spectune.domain.trial import Purpose
from spectune.ledger.store import SqlLedger
from spectune.search.staged import at_depth
from tests.assemble.earlier import SPACE, SURFACE, prepared, start, write
from tests.predict.test_speed import depths, simple, told

LABELS = [at_depth(Candidate(), SPACE, depth).label for depth in SPACE.depths]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    with SqlLedger.open_path(tmp_path / "ledger.sqlite") as opened_ledger:
        yield opened_ledger


def untouched(**changes: object) -> Outlook:
    new = prepared(**changes)
    return outlook(new, History(opening(new, 0.0)))


def test_without_history_the_order_goes_as_far_as_it_can_be_told() -> None:
    found = untouched()
    assert [step.purpose for step in found.steps] == [Purpose.BASELINE, Purpose.BASELINE, Purpose.EXPLORE]
    assert found.steps[2].label in LABELS
    assert (found.then, found.sources, found.learned) == (BY_MEASUREMENT, (), False)
    assert found.launches > len(found.steps) + found.confirming
    assert all(row.gain is None and not row.per_user and row.room is None for row in found.rows)
    assert [row.label for row in found.rows] == ["none", *LABELS]


def test_the_grid_can_be_told_to_its_end() -> None:
    spaces = SURFACE.spec.search.speculation
    found = untouched(search=SearchSpec(speculation=spaces, strategy="random"))
    assert found.then == BY_MEASUREMENT
    named = SearchSpec(candidates=(CandidateSpec(Method.NGRAM, 4), CandidateSpec(Method.NGRAM, 2)))
    assert [step.label for step in untouched(search=named).steps[2:4]] == ["ngram k=4", "ngram k=2"]


def test_earlier_campaigns_forecast_gain_levels_and_time(ledger: SqlLedger) -> None:
    name = write(ledger, start(), depths=(2, 3, 4))
    new = prepared()
    found = outlook(new, History(opening(new, 0.0, priors(new, ledger))))
    assert found.sources == (f"5 trials of campaign {name}",)
    assert found.then == CONFIRMATION
    rows = {row.label: row for row in found.rows}
    gains = {label: row.gain.value for label, row in rows.items() if row.gain is not None}
    assert found.steps[2].label == max(gains, key=lambda label: gains[label])
    for label in LABELS:
        assert rows[label].gain is not None
        assert set(rows[label].per_user) == set(rows[label].aggregate) == set(found.levels)
        assert rows[label].launch or rows[label].note.startswith("left out: at best ")
    assert found.learned
    assert found.minutes == pytest.approx(found.launches * 2, rel=0.3)  # a launch of the simulation takes two minutes


def test_what_cannot_run_says_why_and_takes_no_launch() -> None:
    new = replace(prepared(), pruned={LABELS[0]: "too shallow here", LABELS[3]: "no such depth"})
    found = outlook(new, History(opening(new, 0.0)))
    rows = {row.label: row for row in found.rows}
    assert rows[LABELS[0]].note == "cannot run: too shallow here"
    assert not {LABELS[0], LABELS[3]} & {step.label for step in found.steps}


def test_goodput_has_no_forecast(ledger: SqlLedger) -> None:
    write(ledger, start())
    new = prepared(objective=ObjectiveSpec(maximise=MetricName.GOODPUT, slo_ttft_s=2.0))
    found = outlook(new, History(opening(new, 0.0, priors(new, ledger))))
    assert all(row.gain is None for row in found.rows)


def test_an_interrupted_campaign_is_gone_on_with(tmp_path: Path) -> None:
    with SqlLedger.open_path(tmp_path / "ledger.sqlite") as opened_ledger:
        event = start()
        name = write(opened_ledger, replace(event, spec=prepared().spec), finished=False)
    found = foreseen(prepared(), tmp_path, (), lambda there, new: there)
    assert found.campaign == name
    assert found.sources == ("3 trials of this campaign",)
    assert Purpose.BASELINE not in {step.purpose for step in found.steps}
    assert {row.label: row.note for row in found.rows}[LABELS[1]] == "launched already (valid)"
    assert found.most == prepared().spec.budget.trials - 3


def test_a_directory_without_a_ledger_is_no_error(tmp_path: Path) -> None:
    assert foreseen(prepared(), tmp_path / "none", (), lambda there, new: there).sources == ()
    assert not (tmp_path / "none").exists()


def test_where_drafts_cease_to_pay() -> None:
    surface = simple((1, 64, 512))
    history = told(surface, [surface.baseline, surface.baseline, depths(surface)[2]], 0.005)
    found = outlook(replace(prepared(), spec=surface.spec), history)
    assert found.crossover is not None
    assert found.crossover.users is not None
    assert 64 < found.crossover.users < 512
    quiet = outlook(replace(prepared(), spec=replace(surface.spec, workload=WorkloadSpec(concurrency=(1, 2)))), history)
    assert quiet.crossover is None
