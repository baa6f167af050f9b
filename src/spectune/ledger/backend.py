"""What the ledger needs of a database beyond portable SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from spectune.domain.errors import SpectuneError


class Backend(Protocol):
    """One kind of database."""

    @property
    def name(self) -> str:
        """Names the ledger in messages: a path, or a URL without its password."""
        ...

    @property
    def engine(self) -> Engine:
        """Its transactions are durable when committed, and hold DDL too."""
        ...

    def forbid_changes(self, table: str) -> tuple[str, ...]:
        """Statements after which the database itself refuses UPDATE and DELETE on a table."""
        ...

    def explain(self, error: Exception) -> SpectuneError:
        """The error for people: what happened to which ledger, and what to do."""
        ...


@contextmanager
def transaction(backend: Backend) -> Iterator[Connection]:
    """One transaction: committed durably at the end of the block, or without any effect.

    Raises:
        LedgerError: for whatever the database could not do.
    """
    try:
        with backend.engine.begin() as connection:
            yield connection
    # Drivers refuse values that they can't bind (text that is not Unicode, integers over 64 bits) with plain
    # Python exceptions, and raise UnicodeDecodeError (a ValueError) for text damaged on the disk.
    except (SQLAlchemyError, OSError, ValueError, OverflowError) as error:
        raise backend.explain(error) from error
