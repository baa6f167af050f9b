"""The ledger's tables as of the newest migration, for queries. What creates them is in migrations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from sqlalchemy import BigInteger, Column, Double, MetaData, Table, Text

from spectune.domain.measurement import Outcome, Phase, RequestRecord, TokenSource

metadata = MetaData()

migrations = Table(
    "spectune_migrations",
    metadata,
    Column("version", BigInteger, primary_key=True),
    Column("about", Text, nullable=False),
    Column("spectune", Text, nullable=False),
)

campaigns = Table(
    "campaigns",
    metadata,
    Column("id", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("opened_at", Double, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("campaign", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("at", Double, nullable=False),
    Column("kind", Text, nullable=False),
    Column("trial", BigInteger),
    Column("records", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)

requests = Table(
    "requests",
    metadata,
    Column("campaign", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("position", BigInteger, primary_key=True),
    Column("prompt_id", Text, nullable=False),
    Column("domain", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("due_ns", BigInteger, nullable=False),
    Column("sent_ns", BigInteger, nullable=False),
    Column("first_ns", BigInteger),
    Column("last_ns", BigInteger),
    Column("end_ns", BigInteger, nullable=False),
    Column("output_tokens", BigInteger),
    Column("token_source", Text, nullable=False),
    Column("prompt_tokens", BigInteger),
    Column("cached_tokens", BigInteger),
    Column("chunks", BigInteger, nullable=False),
    Column("finish_reason", Text),
    Column("drafted", BigInteger),
    Column("accepted", BigInteger),
    Column("output_sha256", Text, nullable=False),
    Column("output_compression", Double),
    Column("detail", Text, nullable=False),
)

RECORD_COLUMNS = tuple(requests.c[field.name] for field in fields(RequestRecord))
"""The columns of a request record, in the order of the dataclass's fields."""

_NAMES = tuple(column.name for column in RECORD_COLUMNS)
_values = attrgetter(*_NAMES)
_WORDS = {"outcome": Outcome, "phase": Phase, "token_source": TokenSource}
_OUTCOMES = {word.value: word for word in Outcome}
_PHASES = {word.value: word for word in Phase}
_SOURCES = {word.value: word for word in TokenSource}
_OUTCOME, _PHASE, _SOURCE = (_NAMES.index(name) for name in _WORDS)


def rows_of(campaign: str, seq: int, records: Iterable[RequestRecord]) -> list[dict[str, Any]]:
    """Rows for a bulk insert. Words are given as plain text, since drivers differ in how they bind an enum."""
    rows = []
    for position, record in enumerate(records):
        row: dict[str, Any] = dict(zip(_NAMES, _values(record), strict=True))
        row.update(
            campaign=campaign,
            seq=seq,
            position=position,
            outcome=record.outcome.value,
            phase=record.phase.value,
            token_source=record.token_source.value,
        )
        rows.append(row)
    return rows


def record_of(row: Sequence[Any]) -> RequestRecord:
    """The record in a row of RECORD_COLUMNS.

    Raises:
        KeyError: for an outcome, phase or token source that this version does not know.
    """
    values = list(row)
    values[_OUTCOME] = _OUTCOMES[values[_OUTCOME]]
    values[_PHASE] = _PHASES[values[_PHASE]]
    values[_SOURCE] = _SOURCES[values[_SOURCE]]
    return RequestRecord(*values)
