"""The contract on SQLite, and what the file itself guarantees."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectune.domain.errors import LedgerError
from spectune.domain.events import CampaignOpened, Event
from spectune.ledger import SqlLedger
from tests.contracts.ledger import LedgerContract, Store
from tests.ledger.generated import LATER_EVENTS, OPENINGS
from tests.ledger.samples import measured, opened, started, trial_events


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


class TestSqliteLedger(LedgerContract):
    @pytest.fixture
    def store(self, path: Path) -> Store:
        return partial(SqlLedger.open_path, path)


class TestReading:
    def test_readers_see_each_event_while_the_writer_writes(self, path: Path) -> None:
        with SqlLedger.open_path(path) as writer:
            campaign = writer.open(opened())
            with SqlLedger.read_only(path) as reader:
                for trial in range(1, 4):
                    writer.append(campaign, measured(trial))
                    assert len(list(reader.events(campaign))) == 1 + trial
                    assert reader.latest("demo") == campaign

    def test_readers_and_writers_come_and_go(self, path: Path) -> None:
        """Opening and closing a writer changes the journal's mode under the readers."""
        with SqlLedger.open_path(path) as writer:
            campaign = writer.open(opened())
        seen: list[int] = []

        def read() -> None:
            while not seen or seen[-1] < 21:
                with SqlLedger.read_only(path) as reader:
                    seen.append(len(list(reader.events(campaign))))

        threads = [Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for trial in range(20):
            with SqlLedger.open_path(path) as writer:
                writer.append(campaign, measured(trial, 50))
        for thread in threads:
            thread.join(timeout=60)
        assert seen[-1] == 21

    def test_readers_can_not_write(self, path: Path) -> None:
        with SqlLedger.open_path(path) as writer:
            campaign = writer.open(opened())
        with SqlLedger.read_only(path) as reader:
            with pytest.raises(LedgerError, match="reading only"):
                reader.append(campaign, started(1))
            with pytest.raises(LedgerError, match="reading only"):
                reader.open(opened())

    def test_a_ledger_at_rest_is_one_plain_file(self, path: Path) -> None:
        with SqlLedger.open_path(path) as writer:
            campaign = writer.open(opened())
            writer.append(campaign, measured(1))
        assert sorted(file.name for file in path.parent.iterdir()) == ["ledger.db", "ledger.db.lock"]
        copy = path.parent / "copy" / "of it.db"
        copy.parent.mkdir()
        copy.write_bytes(path.read_bytes())
        with SqlLedger.read_only(copy) as reader:
            assert list(reader.events(campaign)) == [opened(), measured(1)]

    def test_events_are_fetched_as_they_are_asked_for(self, path: Path) -> None:
        with SqlLedger.open_path(path) as ledger:
            campaign = ledger.open(opened())
            ledger.append(campaign, started(1))
            _execute(path, "INSERT INTO events VALUES (?, 3, 0, 'odd', 1, 0, '{}')", campaign)
            reading = ledger.events(campaign)
            assert [next(reading), next(reading)] == [opened(), started(1)]
            with pytest.raises(LedgerError, match=f"event 3 of campaign '{campaign}'"):
                next(reading)


def test_a_closed_ledger_is_not_used(path: Path) -> None:
    with SqlLedger.open_path(path) as ledger:
        campaign = ledger.open(opened())
        ledger.append(campaign, measured(1))
        reading = ledger.events(campaign)
    with pytest.raises(LedgerError, match="closed"):
        ledger.append(campaign, started(1))
    with pytest.raises(LedgerError, match="closed"):
        list(reading)


class TestAppendOnly:
    @pytest.fixture
    def filled(self, path: Path) -> Path:
        with SqlLedger.open_path(path) as ledger:
            campaign = ledger.open(opened())
            for event in trial_events(1):
                ledger.append(campaign, event)
        return path

    @pytest.mark.parametrize("table", ["campaigns", "events", "requests"])
    @pytest.mark.parametrize("change", ["DELETE FROM {}", "UPDATE {} SET {}"])
    def test_the_database_refuses_changes(self, filled: Path, table: str, change: str) -> None:
        column = {"campaigns": "name = 'x'", "events": "body = '{}'", "requests": "output_tokens = 1"}[table]
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            _execute(filled, change.format(table, column))

    def test_missing_records_are_noticed(self, filled: Path) -> None:
        _execute(filled, "DROP TRIGGER requests_no_delete")
        _execute(filled, "DELETE FROM requests WHERE position = 2")
        with SqlLedger.read_only(filled) as ledger, pytest.raises(LedgerError, match=r"event 5 .* 4 records"):
            list(ledger.events(ledger.campaigns()[0].id))

    def test_an_unknown_outcome_is_noticed(self, filled: Path) -> None:
        _execute(filled, "DROP TRIGGER requests_no_update")
        _execute(filled, "UPDATE requests SET outcome = 'melted' WHERE position = 2")
        with SqlLedger.read_only(filled) as ledger, pytest.raises(LedgerError, match=r"event 5 .*melted"):
            list(ledger.events(ledger.campaigns()[0].id))


class TestIds:
    def test_an_id_follows_from_name_time_and_token(self, path: Path) -> None:
        with SqlLedger.open_path(path, token=lambda: "a3f1") as ledger:
            assert ledger.open(opened()) == "demo-20260301-142530-a3f1"

    def test_a_token_that_is_taken_is_drawn_again(self, path: Path) -> None:
        tokens = iter(["0001", "0001", "0001", "0002"])
        with SqlLedger.open_path(path, token=lambda: next(tokens)) as ledger:
            assert [ledger.open(opened())[-4:] for _ in range(2)] == ["0001", "0002"]

    def test_tokens_that_never_change_are_an_error(self, path: Path) -> None:
        with SqlLedger.open_path(path, token=lambda: "same") as ledger:
            ledger.open(opened())
            with pytest.raises(LedgerError, match="no free id"):
                ledger.open(opened())

    @pytest.mark.parametrize("at", [float("inf"), float("nan"), 1e30])
    def test_a_time_that_is_none(self, path: Path, at: float) -> None:
        with SqlLedger.open_path(path) as ledger, pytest.raises(LedgerError, match="time"):
            ledger.open(opened(at=at))


def _fits_columns(event: Event) -> bool:
    return event.at == event.at and abs(getattr(event, "trial", 0)) < 1 << 63


@given(
    OPENINGS.filter(lambda event: 0 < event.at < 1e11),
    st.lists(LATER_EVENTS.filter(_fits_columns), max_size=3),
)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_events_come_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, first: CampaignOpened, rest: list[Event]
) -> None:
    with SqlLedger.open_path(tmp_path_factory.mktemp("any") / "ledger.db") as ledger:
        campaign = ledger.open(first)
        for event in rest:
            ledger.append(campaign, event)
        assert repr(list(ledger.events(campaign))) == repr([first, *rest])


def test_speed(path: Path) -> None:
    """The best of several, in processor time, since tests share their machine."""
    big = measured(1, 2000)
    appends, reads = [], []
    with SqlLedger.open_path(path) as ledger:
        campaign = ledger.open(opened())
        for _ in range(12):
            began = time.process_time()
            ledger.append(campaign, big)
            appends.append(time.process_time() - began)
        reading = ledger.events(campaign)
        assert next(reading) == opened()
        for _ in appends:
            began = time.process_time()
            assert next(reading).kind == "measured"
            reads.append(time.process_time() - began)
    assert min(appends) < 0.150
    assert min(reads) < 3.0 / 50


def _execute(path: Path, sql: str, *values: str) -> None:
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute(sql, values)
