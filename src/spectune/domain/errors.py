"""One error tree. Every error carries what happened and what to do; the command line maps branches to exit codes.

Foreign exceptions (OSError, httpx, SQLAlchemy, pydantic) are translated at the edge of the room that meets them.
"""

from __future__ import annotations

from enum import StrEnum


class SpectuneError(Exception):
    """Base of all expected failures.

    Args:
        message: what happened, naming the file, key, port or process concerned.
        advice: what the user can do next; empty when there is nothing better than the message.
    """

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice


class InputError(SpectuneError):
    """What the user asked for is wrong: a campaign file, an option, a model path. Nothing was started."""


class LedgerError(SpectuneError):
    """The ledger cannot be read or written: disk full, locked by another campaign, damaged."""


class LedgerTooNew(InputError):
    """The ledger was written by a newer spectune than this one."""


class HostError(SpectuneError):
    """The host failed, not the engine: no such command, disk full, lost connection, port held by someone else."""


class PortTaken(HostError):
    """Another program already listens where the engine should."""


class HostUnreachable(HostError):
    """No connection to the host could be made. Nothing was run on it."""


class HostKeyRefused(HostUnreachable):
    """The host's key is unknown, or another one than before."""


class LoginRefused(HostUnreachable):
    """The host does not let the user in without asking for something, or not at all."""


class HostBusy(HostUnreachable):
    """The connection carries no further command now. Nothing was run."""


class HostLost(HostError):
    """The connection broke while a command ran: it may have done all, some or nothing of its work."""


class CommandFailed(HostError):
    """A command ran on the host and ended with an error."""


class CommandTimedOut(HostError):
    """A command took longer than it was given, and was ended."""


class SudoRefused(HostError):
    """The login may not become root, or the password was wrong. Nothing was run."""


class AccessDenied(HostError):
    """The login may not read or write a file."""


class DiskFull(HostError):
    """The host's disk, or the user's share of it, has no room."""


class FailureKind(StrEnum):
    """Why an engine did not serve; each engine adapter reads these from its own log."""

    PORT_TAKEN = "port-taken"
    MODEL_MISSING = "model-missing"
    MODEL_BROKEN = "model-broken"
    DRAFT_MODEL = "draft-model"
    BAD_ARGUMENT = "bad-argument"
    OUT_OF_MEMORY = "out-of-memory"
    KV_TOO_SMALL = "kv-too-small"
    MISSING_LIBRARY = "missing-library"
    NEVER_READY = "never-ready"
    EXITED = "exited"
    DIED_MEASURING = "died-measuring"
    UNKNOWN = "unknown"


class EngineFailure(SpectuneError):
    """An engine did not start, did not get ready, or died. The campaign goes on; the trial is INVALID."""

    def __init__(self, kind: FailureKind, message: str, advice: str = "", log_tail: str = "") -> None:
        super().__init__(message, advice)
        self.kind = kind
        self.log_tail = log_tail


class EngineUnusable(SpectuneError):
    """Not even the baseline serves, so there is nothing to tune."""


class BuildFailed(SpectuneError):
    """The engine could not be built from its source package."""
