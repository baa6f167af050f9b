"""Numbered changes of the ledger's tables. Each is applied once, in one transaction, and never edited afterwards.

A new event kind or a new field of an event needs a new number too, even where no table changes: it is the number
that tells an older spectune that it can't read the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, inspect, select, text

import spectune
from spectune.domain.errors import LedgerError, LedgerTooNew
from spectune.ledger import tables
from spectune.ledger.backend import Backend, transaction


@dataclass(frozen=True, slots=True)
class Migration:
    """One step from version - 1 to version."""

    version: int
    about: str
    apply: Callable[[Connection, Backend], None]


# BIGINT, DOUBLE PRECISION and TEXT mean the same to every database spoken to.
_FIRST_TABLES = (
    """
    CREATE TABLE spectune_migrations (
        version BIGINT NOT NULL PRIMARY KEY,
        about TEXT NOT NULL,
        spectune TEXT NOT NULL
    )""",
    """
    CREATE TABLE campaigns (
        id TEXT NOT NULL PRIMARY KEY,
        number BIGINT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        opened_at DOUBLE PRECISION NOT NULL
    )""",
    """
    CREATE TABLE events (
        campaign TEXT NOT NULL REFERENCES campaigns (id),
        seq BIGINT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        kind TEXT NOT NULL,
        trial BIGINT,
        records BIGINT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (campaign, seq)
    )""",
    """
    CREATE TABLE requests (
        campaign TEXT NOT NULL,
        seq BIGINT NOT NULL,
        position BIGINT NOT NULL,
        prompt_id TEXT NOT NULL,
        domain TEXT NOT NULL,
        outcome TEXT NOT NULL,
        phase TEXT NOT NULL,
        due_ns BIGINT NOT NULL,
        sent_ns BIGINT NOT NULL,
        first_ns BIGINT,
        last_ns BIGINT,
        end_ns BIGINT NOT NULL,
        output_tokens BIGINT,
        token_source TEXT NOT NULL,
        prompt_tokens BIGINT,
        cached_tokens BIGINT,
        chunks BIGINT NOT NULL,
        finish_reason TEXT,
        drafted BIGINT,
        accepted BIGINT,
        output_sha256 TEXT NOT NULL,
        output_compression DOUBLE PRECISION,
        detail TEXT NOT NULL,
        PRIMARY KEY (campaign, seq, position),
        FOREIGN KEY (campaign, seq) REFERENCES events (campaign, seq)
    )""",
)


def _create(connection: Connection, backend: Backend) -> None:
    for statement in _FIRST_TABLES:
        connection.execute(text(statement))
    for table in ("campaigns", "events", "requests"):
        for statement in backend.forbid_changes(table):
            connection.exec_driver_sql(statement)


def _nothing(connection: Connection, backend: Backend) -> None:
    """For new fields of events: their absence in older events is their default."""


MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, "campaigns, events, requests", _create),
    Migration(2, "trials side by side; rates; adjustments; sessions; probes at every load", _nothing),
    Migration(3, "promotions and rollbacks; windows and pauses; drains; edited units", _nothing),
    Migration(4, "earlier campaigns as priors of a new one", _nothing),
)


def migrate(backend: Backend, steps: Sequence[Migration] = MIGRATIONS) -> None:
    """Brings a ledger up to the newest version; an empty database becomes a ledger.

    Raises:
        LedgerTooNew: when a newer spectune has written it; nothing is changed.
        LedgerError: when it is no ledger or can't be written.
    """
    with transaction(backend) as connection:
        version = _version(connection, backend, steps)
    for step in steps:
        if step.version > version:
            with transaction(backend) as connection:
                step.apply(connection, backend)
                connection.execute(
                    insert(tables.migrations).values(
                        version=step.version, about=step.about, spectune=spectune.__version__
                    )
                )


def require_known(backend: Backend, steps: Sequence[Migration] = MIGRATIONS) -> None:
    """Changes nothing.

    Raises:
        LedgerTooNew: as in `migrate`.
        LedgerError: when there is something else in the database than a ledger.
    """
    with transaction(backend) as connection:
        _version(connection, backend, steps)


def is_older(backend: Backend, steps: Sequence[Migration] = MIGRATIONS) -> bool:
    """For readers, who can't migrate: whether it is a ledger of an older version.

    Raises:
        LedgerTooNew: as in `migrate`.
        LedgerError: when it is no ledger, or an empty one.
    """
    with transaction(backend) as connection:
        version = _version(connection, backend, steps)
    if version == 0:
        raise LedgerError(f"{backend.name} is empty: no campaign was recorded in it", "Run a campaign first.")
    return version < steps[-1].version


def _version(connection: Connection, backend: Backend, steps: Sequence[Migration]) -> int:
    """The version of a ledger, 0 for an empty database."""
    present = inspect(connection).get_table_names()
    if not present:
        return 0
    found = None
    if tables.migrations.name in present:
        found = connection.execute(select(func.max(tables.migrations.c.version))).scalar()
    if found is None:
        raise LedgerError(
            f"{backend.name} is a database, but not a ledger of spectune",
            "Move it away, or name another directory with --dir.",
        )
    version, newest = int(found), steps[-1].version
    if version > newest:
        writer = connection.execute(
            select(tables.migrations.c.spectune).where(tables.migrations.c.version == version)
        ).scalar()
        raise LedgerTooNew(
            f"{backend.name} is a ledger of version {version}, written by spectune {writer}; this spectune"
            f" ({spectune.__version__}) knows versions up to {newest}",
            f"Upgrade spectune to {writer} or later, or use another ledger.",
        )
    return version
