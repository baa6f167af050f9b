from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect, text

from spectune.domain.errors import LedgerError, LedgerTooNew
from spectune.ledger import SqlLedger, tables
from spectune.ledger.backend import Backend, transaction
from spectune.ledger.migrations import MIGRATIONS, Migration, is_older, migrate
from spectune.ledger.sqlite import sqlite_reader, sqlite_writer
from tests.ledger.samples import measured, opened


def _add_note(connection: Connection, backend: Backend) -> None:
    connection.execute(text("ALTER TABLE events ADD COLUMN note TEXT NOT NULL DEFAULT 'none'"))


def _fail_halfway(connection: Connection, backend: Backend) -> None:
    connection.execute(text("ALTER TABLE campaigns ADD COLUMN half TEXT"))
    connection.execute(text("ALTER TABLE nothing ADD COLUMN half TEXT"))


Way = Callable[[Path], AbstractContextManager[SqlLedger]]
NOW = MIGRATIONS[-1].version
NEXT = Migration(NOW + 1, "notes", _add_note)
FUTURE = (*MIGRATIONS, NEXT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def campaign(path: Path) -> str:
    """A ledger of today's version with one campaign."""
    with SqlLedger.open_path(path) as ledger:
        campaign = ledger.open(opened())
        ledger.append(campaign, measured(1))
    return campaign


def test_numbers_have_no_gap() -> None:
    assert [step.version for step in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


def test_migrated_tables_are_the_ones_that_queries_use(path: Path) -> None:
    with SqlLedger.open_path(path), sqlite_reader(path) as backend:
        found = inspect(backend.engine)
        assert set(found.get_table_names()) == set(tables.metadata.tables)
        for table in tables.metadata.tables.values():
            columns = {column["name"]: column["nullable"] for column in found.get_columns(table.name)}
            assert columns == {column.name: bool(column.nullable) for column in table.columns}
            key = found.get_pk_constraint(table.name)["constrained_columns"]
            assert key == [column.name for column in table.primary_key]


def test_an_older_ledger_is_migrated_and_keeps_its_events(path: Path, campaign: str) -> None:
    with sqlite_writer(path) as backend:
        migrate(backend, FUTURE)
        migrate(backend, FUTURE)
        with transaction(backend) as connection:
            assert connection.execute(text("SELECT DISTINCT note FROM events")).all() == [("none",)]
            assert connection.execute(text("SELECT version FROM spectune_migrations")).scalars().all() == list(
                range(1, NEXT.version + 1)
            )
        assert list(SqlLedger(backend).events(campaign)) == [opened(), measured(1)]


def test_a_migration_that_fails_leaves_the_older_version_untouched(path: Path, campaign: str) -> None:
    broken = (*FUTURE, Migration(NEXT.version + 1, "breaks", _fail_halfway))
    with sqlite_writer(path) as backend:
        with pytest.raises(LedgerError):
            migrate(backend, broken)
        assert not is_older(backend, FUTURE)
        assert "half" not in [column["name"] for column in inspect(backend.engine).get_columns("campaigns")]


def test_an_older_ledger_is_read_from_a_migrated_copy(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with sqlite_writer(path) as backend:
        migrate(backend, MIGRATIONS[:-1])
        campaign = SqlLedger(backend).open(opened())
        SqlLedger(backend).append(campaign, measured(1))
    before = path.read_bytes()
    with sqlite_reader(path) as backend:
        assert is_older(backend)
    with SqlLedger.read_only(path) as ledger:
        assert list(ledger.events(campaign)) == [opened(), measured(1)]
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir() if "lock" not in file.name] == ["old.sqlite"]


@pytest.mark.parametrize("way", [SqlLedger.open_path, SqlLedger.read_only], ids=["write", "read"])
def test_a_newer_ledger_names_both_versions_and_is_left_alone(path: Path, campaign: str, way: Way) -> None:
    with sqlite_writer(path) as backend:
        migrate(backend, FUTURE)
        with transaction(backend) as connection:
            connection.execute(
                text(f"UPDATE spectune_migrations SET spectune = '9.1.0' WHERE version = {NEXT.version}")
            )
    before = path.read_bytes()
    both = rf"version {NEXT.version}, written by spectune 9\.1\.0; .* up to {NOW}"
    with pytest.raises(LedgerTooNew, match=both) as caught, way(path):
        pass
    assert "Upgrade spectune to 9.1.0" in caught.value.advice
    assert path.read_bytes() == before
