"""Bad records of a file: counted, named by number, and too many of them are an error."""

from __future__ import annotations

from spectune.domain.errors import InputError

_SHOWN = 10
_PLURAL = {"line": "lines", "entry": "entries"}


class BadRecord(ValueError):
    """A record that can't be used; the text says why. Never leaves this room."""


class Problems:
    """Collects what is wrong with the records of one file.

    Args:
        path: the file, for messages.
        unit: what a record is called, "line" or "entry".
    """

    def __init__(self, path: str, unit: str) -> None:
        self._path = path
        self._unit = unit
        self._shown: list[int] = []
        self._first_reason = ""
        self.count = 0

    def add(self, number: int, reason: str) -> None:
        if not self.count:
            self._first_reason = reason
        self.count += 1
        if len(self._shown) <= _SHOWN:
            self._shown.append(number)

    def notes(self) -> tuple[str, ...]:
        """One note, or none where nothing was bad."""
        if not self.count:
            return ()
        return (f"{self.count} bad {self._units(self.count)} skipped: {self._numbers()} ({self._reason()})",)

    def check(self, good: int, expected: str) -> None:
        """Raises InputError when nothing is good, or more than half is bad.

        Args:
            good: records that can be used.
            expected: what a good record looks like, for the advice.
        """
        if good and self.count <= good:
            return
        if not good:
            bad = f": bad {self._units(self.count)} {self._numbers()} ({self._reason()})" if self.count else ""
            raise InputError(f"workload.source: {self._path} holds no usable prompt{bad}", expected)
        raise InputError(
            f"workload.source: {self.count} of {self.count + good} {self._units(2)} of {self._path} are bad: "
            f"{self._numbers()} ({self._reason()})",
            expected,
        )

    def _units(self, count: int) -> str:
        return self._unit if count == 1 else _PLURAL[self._unit]

    def _numbers(self) -> str:
        return some(self._shown)

    def _reason(self) -> str:
        return self._first_reason if self.count == 1 else f"the first: {self._first_reason}"


def some(numbers: list[int]) -> str:
    """The first few of many numbers."""
    return ", ".join(map(str, numbers[:_SHOWN])) + (", ..." if len(numbers) > _SHOWN else "")


class Numbers:
    """Numbers of records that are set apart but not bad; only the first few are kept."""

    def __init__(self) -> None:
        self._shown: list[int] = []
        self.count = 0

    def add(self, number: int) -> None:
        self.count += 1
        if len(self._shown) <= _SHOWN:
            self._shown.append(number)

    def __str__(self) -> str:
        return some(self._shown)
