"""Says how far a build is, from what ninja writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

Progress = Callable[[str, float | None], None]
"""Told what is done right now, and how much of the whole is done (0 to 1; None where that can't be told)."""


@dataclass(frozen=True, slots=True)
class Step:
    """A line of ninja's: so many of so many steps are done."""

    done: int
    total: int


def read_step(line: str) -> Step | None:
    """Reads "[57/208] Building ..."; None for other lines."""
    found = re.match(r"\[([0-9]{1,9})/([0-9]{1,9})\] ", line)
    if found is None or not 0 < int(found[1]) <= int(found[2]):
        return None
    return Step(int(found[1]), int(found[2]))


@dataclass(slots=True)
class Meter:
    """Turns steps into progress. The time left assumes that steps take equally long, so it is called "about"."""

    what: str
    progress: Progress
    monotonic: Callable[[], float]
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.monotonic()

    def heard(self, line: str) -> None:
        step = read_step(line)
        if step is None:
            return
        elapsed = self.monotonic() - self._began
        left = elapsed * (step.total - step.done) / step.done
        remaining = f", about {_minutes(left)} left" if elapsed >= 5 and step.done < step.total else ""
        text = f"{self.what}: {step.done} of {step.total} files, {_minutes(elapsed)}{remaining}"
        self.progress(text, step.done / step.total)


def _minutes(seconds: float) -> str:
    """12 s, 3:05 min."""
    return f"{seconds:.0f} s" if seconds < 59.5 else f"{round(seconds) // 60}:{round(seconds) % 60:02d} min"
