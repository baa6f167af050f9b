"""The append-only record of campaigns: SQLite now, any database with a Backend later; numbered migrations."""

from spectune.ledger.store import SqlLedger

__all__ = ["SqlLedger"]
