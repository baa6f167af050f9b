"""The steady window of a measurement, and who decides when it is long enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from spectune.domain.measurement import RequestRecord


@dataclass(frozen=True, slots=True)
class Window:
    """The steady window, nanoseconds of the monotonic clock."""

    opened_ns: int
    closed_ns: int

    @property
    def seconds(self) -> float:
        return max(0, self.closed_ns - self.opened_ns) / 1e9


class Listener(Protocol):
    """Hears of requests while they are measured."""

    def add(self, record: RequestRecord) -> None:
        """One that counts was served."""
        ...

    def is_enough(self) -> bool:
        """Whether what was heard is known precisely enough; asked often."""
        ...


class Deaf:
    """A Listener for whom it is never enough."""

    def add(self, record: RequestRecord) -> None:
        """Forgets it."""

    def is_enough(self) -> bool:
        return False
