"""Ledgers of a directory of runs, and the campaigns in them, apart from what campaigns are made of and slow to load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spectune.domain.errors import InputError
from spectune.domain.history import History
from spectune.domain.ports import CampaignRow
from spectune.ledger.lock import is_held
from spectune.ledger.store import SqlLedger


@contextmanager
def writable(directory: Path, only_there: bool = False) -> Iterator[SqlLedger]:
    """The ledger of a directory of runs, for writing.

    Args:
        only_there: do not make one.

    Raises:
        InputError: the directory is a file, or the ledger is not there and should be.
        LedgerError: it can't be written.
    """
    _check(directory, only_there)
    with SqlLedger.open_path(ledger_path(directory)) as ledger:
        yield ledger


@contextmanager
def readable(directory: Path, option: str = "--dir") -> Iterator[SqlLedger]:
    """The ledger of a directory of runs, for reading.

    Args:
        option: that named the directory.

    Raises:
        InputError: there is none.
        LedgerError: it can't be read.
    """
    _check(directory, True, option)
    with SqlLedger.read_only(ledger_path(directory)) as ledger:
        yield ledger


def _check(directory: Path, only_there: bool, option: str = "--dir") -> None:
    if directory.exists() and not directory.is_dir():
        raise InputError(f"{option}: {directory} is a file", "Name the directory in which ledger and logs are kept.")
    if only_there and not ledger_path(directory).exists():
        raise InputError(
            f"there is no ledger in {directory}",
            f"Name the directory of your campaigns with {option}; spectune run and spectune demo make one.",
        )


def ledger_path(directory: Path) -> Path:
    return directory / "ledger.sqlite"


def unfinished(ledger: SqlLedger, name: str) -> tuple[str, History] | None:
    """The newest campaign of a name, if it has not ended."""
    newest = ledger.latest(name)
    if newest is None:
        return None
    history = History.of(ledger.events(newest))
    return None if history.conclusion is not None else (newest, history)


def is_unfinished(directory: Path, name: str) -> bool:
    """Whether a directory of runs has a campaign of a name that goes on. Raises LedgerError."""
    if not ledger_path(directory).exists():
        return False
    with readable(directory) as ledger:
        return unfinished(ledger, name) is not None


def find_campaign(ledger: SqlLedger, wanted: str | None) -> tuple[str, History]:
    """A campaign by id or name, the newest without one.

    Raises:
        InputError: when there is none.
    """
    rows: tuple[CampaignRow, ...] = ledger.campaigns()
    if not rows:
        raise InputError(
            "the ledger holds no campaign yet",
            "Run one (spectune run, spectune demo), or name another directory with --dir.",
        )
    row = next((r for r in rows if wanted in {None, r.id, r.name}), None)
    if row is None:
        raise InputError(f"no campaign {wanted!r}", f"There are: {', '.join(r.id for r in rows[:5])}.")
    return row.id, History.of(ledger.events(row.id))


def running(directory: Path, ledger: SqlLedger) -> str | None:
    """Id of the campaign that a spectune works on at this moment; None where none does.

    Who writes to the ledger holds its lock, but the lock does not tell the campaign: it is the unfinished one that was
    written to last.
    """
    unfinished = [row.id for row in ledger.campaigns() if not row.ended]
    if not unfinished or not is_held(ledger_path(directory)):
        return None
    return max(unfinished, key=lambda campaign: max(event.at for event in ledger.events(campaign, records=False)))
