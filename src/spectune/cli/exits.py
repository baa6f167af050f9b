"""Exit codes, and which errors end in which."""

from __future__ import annotations

from enum import IntEnum

from spectune.domain.errors import InputError, SpectuneError


class ExitCode(IntEnum):
    """DECIDED: there is an answer, be it "no change". UNDECIDED: measured, but nothing could be decided."""

    DECIDED = 0
    UNDECIDED = 1
    WRONG_INPUT = 2
    FAILED = 3
    INTERRUPTED = 130


def exit_code(error: SpectuneError) -> ExitCode:
    """The exit code of an error: the user's to mend, or the engine's, host's or ledger's failure."""
    return ExitCode.WRONG_INPUT if isinstance(error, InputError) else ExitCode.FAILED
