"""The ledger: events go in at the end and come out in order, and nothing else happens to them."""

from __future__ import annotations

import difflib
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from sqlalchemy import Connection, Row, func, insert, select

from spectune.domain.errors import LedgerError
from spectune.domain.events import CampaignOpened, Event, Measured, Promoted, RolledBack
from spectune.domain.measurement import RequestRecord
from spectune.domain.ports import CampaignRow
from spectune.ledger import codec, migrations
from spectune.ledger.backend import Backend, transaction
from spectune.ledger.overview import OUTLINE_KINDS, OutlineEvent, row_of
from spectune.ledger.sqlite import sqlite_copy, sqlite_reader, sqlite_writer
from spectune.ledger.tables import RECORD_COLUMNS, campaigns, events, record_of, requests, rows_of

_ID_TRIES = 100


def four_hex() -> str:
    """Four hexadecimal digits that tell campaigns of one second apart."""
    return secrets.token_hex(2)


def campaign_id(name: str, opened_at: float, token: str) -> str:
    """A campaign's id ("demo-20260301-142530-a3f1", UTC): ids of one name sort by time.

    Raises:
        LedgerError: when the time is none.
    """
    try:
        when = datetime.fromtimestamp(opened_at, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise LedgerError(f"the campaign {name!r} can't be opened at time {opened_at}: {error}") from error
    return f"{name}-{when:%Y%m%d-%H%M%S}-{token}"


class SqlLedger:
    """The Ledger port over any database that has a Backend."""

    def __init__(self, backend: Backend, token: Callable[[], str] = four_hex) -> None:
        self._backend = backend
        self._token = token

    @classmethod
    @contextmanager
    def open_path(cls, path: Path, token: Callable[[], str] = four_hex) -> Iterator[Self]:
        """A ledger file for writing: made where it is missing, migrated where it is old, locked meanwhile.

        Args:
            token: draws the end of a campaign's id.

        Raises:
            LedgerTooNew: a newer spectune has written it.
            LedgerError: another spectune writes to it, it is no ledger, or it can't be made or written.
        """
        with sqlite_writer(path) as backend:
            migrations.require_known(backend)
            backend.start_log()
            migrations.migrate(backend)
            yield cls(backend, token)

    @classmethod
    @contextmanager
    def read_only(cls, path: Path) -> Iterator[Self]:
        """A ledger file for reading, also while another process writes to it. One of an older version is read from a
        copy that is migrated, and stays as it is.

        Raises:
            LedgerTooNew: a newer spectune has written it.
            LedgerError: there is none, it is none, or it can't be read.
        """
        with sqlite_reader(path) as backend:
            if not migrations.is_older(backend):
                yield cls(backend)
                return
        with sqlite_copy(path) as backend:
            migrations.migrate(backend)
            yield cls(backend)

    def open(self, opened: CampaignOpened) -> str:
        """Starts a campaign and returns its id.

        Raises:
            LedgerError: when it can't be written.
        """
        body = codec.encode(opened)
        with transaction(self._backend) as connection:
            campaign = self._free_id(connection, opened)
            number = connection.execute(select(func.coalesce(func.max(campaigns.c.number), 0) + 1)).scalar_one()
            connection.execute(
                insert(campaigns).values(id=campaign, number=number, name=opened.spec.name, opened_at=opened.at)
            )
            _insert(connection, campaign, 1, opened, body)
        return campaign

    def append(self, campaign: str, event: Event) -> None:
        """Writes one event; it is on the disk before this returns, or nothing of it is.

        Raises:
            LedgerError: when it can't be written, or there is no such campaign.
        """
        if isinstance(event, CampaignOpened):
            raise LedgerError(f"campaign {campaign!r} can't be opened a second time")
        body = codec.encode(event)
        with transaction(self._backend) as connection:
            last = connection.execute(select(func.max(events.c.seq)).where(events.c.campaign == campaign)).scalar()
            if last is None:
                raise self._no_campaign(connection, campaign)
            _insert(connection, campaign, last + 1, event, body)

    def events(self, campaign: str, records: bool = True) -> Iterator[Event]:
        """All events of a campaign up to now, in order, with the raw records.

        Records are fetched event by event while the caller iterates; no lock is held in between.

        Args:
            records: False leaves the raw records out, which are most of a ledger.

        Raises:
            LedgerError: when there is no such campaign, or (while iterating) an event can't be read.
        """
        with transaction(self._backend) as connection:
            stored = connection.execute(
                select(events.c.seq, events.c.records, events.c.body)
                .where(events.c.campaign == campaign)
                .order_by(events.c.seq)
            ).all()
            if not stored:
                raise self._no_campaign(connection, campaign)
        return self._restored(campaign, stored, records)

    def campaigns(self) -> tuple[CampaignRow, ...]:
        """Newest first. The winner is named by its label, "" where there is none.

        Raises:
            LedgerError: when the ledger can't be read.
        """
        with transaction(self._backend) as connection:
            opened = connection.execute(select(campaigns).order_by(campaigns.c.number.desc())).all()
            stored = connection.execute(
                select(events.c.campaign, events.c.seq, events.c.kind, events.c.trial, events.c.body)
                .where(events.c.kind.in_(OUTLINE_KINDS))
                .order_by(events.c.campaign, events.c.seq)
            ).all()
        outlines: dict[str, list[OutlineEvent]] = {row.id: [] for row in opened}
        for campaign, seq, kind, trial, body in stored:
            outlines.setdefault(campaign, []).append(OutlineEvent(campaign, seq, kind, trial, body))
        return tuple(row_of(row.id, row.name, row.opened_at, outlines[row.id]) for row in opened)

    def in_service(self) -> tuple[tuple[str, Promoted | RolledBack], ...]:
        """Promotions and what undid them, with the campaigns that they belong to, in the order of time.

        Raises:
            LedgerError: when the ledger can't be read.
        """
        with transaction(self._backend) as connection:
            stored = connection.execute(
                select(events.c.campaign, events.c.seq, events.c.body)
                .where(events.c.kind.in_(("promoted", "rolled-back")))
                .order_by(events.c.at, events.c.campaign, events.c.seq)
            ).all()
        decoded = [(campaign, codec.decode(body, campaign, seq)) for campaign, seq, body in stored]
        return tuple((campaign, event) for campaign, event in decoded if isinstance(event, Promoted | RolledBack))

    def latest(self, name: str) -> str | None:
        """The id of the newest campaign of a name, None where there is none.

        Raises:
            LedgerError: when the ledger can't be read.
        """
        with transaction(self._backend) as connection:
            return connection.execute(
                select(campaigns.c.id).where(campaigns.c.name == name).order_by(campaigns.c.number.desc()).limit(1)
            ).scalar()

    def _free_id(self, connection: Connection, opened: CampaignOpened) -> str:
        for _ in range(_ID_TRIES):
            campaign = campaign_id(opened.spec.name, opened.at, self._token())
            if connection.execute(select(campaigns.c.id).where(campaigns.c.id == campaign)).first() is None:
                return campaign
        raise LedgerError(f"no free id for another campaign {opened.spec.name!r} of this second", "Try again.")

    def _restored(self, campaign: str, stored: Iterable[Row[int, int, str]], whole: bool) -> Iterator[Event]:
        for seq, records, body in stored:
            event = codec.decode(body, campaign, seq)
            if isinstance(event, Measured) and whole:
                event = replace(event, records=self._records(campaign, seq, records))
            yield event

    def _records(self, campaign: str, seq: int, expected: int) -> tuple[RequestRecord, ...]:
        with transaction(self._backend) as connection:
            rows = connection.execute(
                select(*RECORD_COLUMNS)
                .where(requests.c.campaign == campaign, requests.c.seq == seq)
                .order_by(requests.c.position)
            ).all()
        if len(rows) != expected:
            raise codec.unreadable(campaign, seq, f"{len(rows)} records of requests where there were {expected}")
        try:
            return tuple(record_of(row) for row in rows)
        except KeyError as error:
            raise codec.unreadable(campaign, seq, f"a record of a request holds the unknown word {error}") from error

    def _no_campaign(self, connection: Connection, campaign: str) -> LedgerError:
        known = connection.execute(select(campaigns.c.id).order_by(campaigns.c.number.desc())).scalars().all()
        near = difflib.get_close_matches(campaign, known, n=1)
        advice = f"Did you mean {near[0]!r}?" if near else "`spectune list` names the campaigns."
        return LedgerError(f"there is no campaign {campaign!r} in {self._backend.name}", advice)


def _insert(connection: Connection, campaign: str, seq: int, event: Event, body: str) -> None:
    records = event.records if isinstance(event, Measured) else ()
    connection.execute(
        insert(events).values(
            campaign=campaign,
            seq=seq,
            at=event.at,
            kind=event.kind,
            trial=getattr(event, "trial", None),
            records=len(records),
            body=body,
        )
    )
    if records:
        connection.execute(insert(requests), rows_of(campaign, seq, records))
