"""Ledgers of a directory of runs, and the campaigns in them, apart from what campaigns are made of and slow to load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spectune.domain.errors import InputError, LedgerError
from spectune.domain.history import History
from spectune.domain.ports import CampaignRow
from spectune.ledger.store import SqlLedger


@contextmanager
def writable(directory: Path, only_there: bool = False) -> Iterator[SqlLedger]:
    """The ledger of a directory of runs, for writing.

    Args:
        only_there: do not make one.

    Raises:
        LedgerError: it can't be written, or is not there.
    """
    if only_there and not ledger_path(directory).exists():
        raise LedgerError(f"there is no ledger in {directory}", "Name the directory of the campaign's: --dir")
    with SqlLedger.open_path(ledger_path(directory)) as ledger:
        yield ledger


@contextmanager
def readable(directory: Path) -> Iterator[SqlLedger]:
    """The ledger of a directory of runs, for reading. Raises LedgerError where there is none."""
    with SqlLedger.read_only(ledger_path(directory)) as ledger:
        yield ledger


def ledger_path(directory: Path) -> Path:
    return directory / "ledger.sqlite"


def unfinished(ledger: SqlLedger, name: str) -> tuple[str, History] | None:
    """The newest campaign of a name, if it has not ended."""
    newest = ledger.latest(name)
    if newest is None:
        return None
    history = History.of(ledger.events(newest))
    return None if history.conclusion is not None else (newest, history)


def find_campaign(ledger: SqlLedger, wanted: str | None) -> tuple[str, History]:
    """A campaign by id or name, the newest without one.

    Raises:
        InputError: when there is none.
    """
    rows: tuple[CampaignRow, ...] = ledger.campaigns()
    if not rows:
        raise InputError("the ledger holds no campaign yet", "Run one: spectune demo")
    row = next((r for r in rows if wanted in {None, r.id, r.name}), None)
    if row is None:
        raise InputError(f"no campaign {wanted!r}", f"There are: {', '.join(r.id for r in rows[:5])}.")
    return row.id, History.of(ledger.events(row.id))
