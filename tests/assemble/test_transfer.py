"""Which earlier campaigns a new one takes along, and what of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spectune.assemble.campaigns import opening
from spectune.assemble.transfer import MOST_CAMPAIGNS, MOST_OF_ONE, priors
from spectune.domain.errors import InputError
from spectune.domain.history import History
from spectune.domain.knobs import KnobValue
from spectune.domain.metrics import MetricName
from spectune.domain.spec import SearchSpec
from spectune.ledger import codec
from spectune.ledger.store import SqlLedger
from tests.assemble.earlier import SURFACE, prepared, start, write


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    with SqlLedger.open_path(tmp_path / "ledger.sqlite") as opened_ledger:
        yield opened_ledger


def test_trials_of_the_same_service_are_taken_along(ledger: SqlLedger) -> None:
    name = write(ledger, start(), depths=(2, 3, 3, 3))
    (found,) = priors(prepared(), ledger)
    assert (found.campaign, found.differs) == (name, ())
    assert [trial.candidate.speculation.depth for trial in found.trials] == [0, 0, 2, *[3] * MOST_OF_ONE]
    first = found.trials[0].as_trial(-1)
    original = next(iter(History.of(ledger.events(name)).finished))
    for key, cell in original.cells.items():
        for metric in (MetricName.PER_USER_SPEED, MetricName.AGGREGATE_SPEED):
            assert first.cells[key].measurement.metrics[metric] == cell.measurement.metrics[metric]


def test_they_are_read_back_from_the_new_campaigns_first_event(ledger: SqlLedger) -> None:
    write(ledger, start())
    new = prepared()
    event = opening(new, 1.0, priors(new, ledger))
    assert codec.decode(codec.encode(event), "c", 1) == event
    assert len(codec.encode(event)) < 40_000


def test_an_interrupted_campaign_counts_too_and_the_newest_come_first(ledger: SqlLedger) -> None:
    names = [write(ledger, start(), finished=i % 2 == 0) for i in range(MOST_CAMPAIGNS + 1)]
    assert [prior.campaign for prior in priors(prepared(), ledger)] == names[:0:-1]


def test_unlike_campaigns_are_passed_over(ledger: SqlLedger) -> None:
    event = start()
    provenance, service = event.provenance, event.service
    for unlike in (
        replace(event, service=replace(service, engine="sglang")),
        replace(event, service=replace(service, args={"threads": 7})),
        replace(event, provenance=replace(provenance, files={"model": "sha-2"})),
        replace(event, provenance=replace(provenance, simulated="")),
        replace(event, provenance=replace(provenance, hardware=replace(provenance.hardware, gpus=("H200",)))),
    ):
        write(ledger, unlike)
    assert priors(prepared(), ledger) == ()


def test_its_own_speculation_does_not_make_a_service_another(ledger: SqlLedger) -> None:
    event = start()
    drafting: dict[str, KnobValue] = {"spec-type": "ngram-simple", "spec-draft-n-max": 4}
    write(ledger, replace(event, service=replace(event.service, args=drafting)))
    assert len(priors(prepared(), ledger)) == 1


def test_what_differs_is_named(ledger: SqlLedger) -> None:
    event = start()
    other = replace(event.provenance, engine_version="b1", workload=replace(event.provenance.workload, sha256="x"))
    write(ledger, replace(event, provenance=other))
    (found,) = priors(prepared(), ledger)
    assert found.differs == ("engine b1, now 0", "other workload")
    assert found.label.endswith(" (engine b1, now 0; other workload)")


@pytest.mark.parametrize("search", [{"priors": False}, {"strategy": "grid"}])
def test_the_campaign_file_can_do_without(ledger: SqlLedger, search: dict[str, object]) -> None:
    write(ledger, start())
    spaces = SURFACE.spec.search.speculation
    assert priors(prepared(search=SearchSpec(speculation=spaces, **search)), ledger) == ()  # type: ignore[arg-type]


def test_other_directories_tell_too_and_must_be_there(ledger: SqlLedger, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    with SqlLedger.open_path(folder / "ledger.sqlite") as other:
        name = write(other, start())
    assert [prior.campaign for prior in priors(prepared(), ledger, [folder])] == [name]
    with pytest.raises(InputError):
        priors(prepared(), ledger, [tmp_path / "nowhere"])


def test_a_campaign_without_a_comparable_trial_tells_nothing(ledger: SqlLedger) -> None:
    ledger.open(start())
    assert priors(prepared(), ledger) == ()
