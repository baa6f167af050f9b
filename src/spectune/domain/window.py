"""Maintenance windows: spans of the day in which a service may be disturbed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Self

from spectune.domain.drain import SPAN
from spectune.domain.errors import InputError
from spectune.domain.history import History
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Trial

_EARLY = 0.1
"""Share of a window: a trial that begins within it has had the window's time."""
_SPARE = 1.1
"""How much longer than the longest one so far the next trial may take."""


@dataclass(frozen=True, slots=True)
class Window:
    """The same span of every day, in local time; it may go across midnight.

    Attributes:
        zone: None is the machine's own. Days on which clocks are changed have windows that are longer, shorter or none.
    """

    begin: time
    end: time
    zone: tzinfo | None = None

    @classmethod
    def parse(cls, text: str, zone: tzinfo | None = None) -> Self:
        """Reads "01:00-05:00". Raises InputError."""
        found = re.fullmatch(SPAN, text.strip())
        if found is None:
            raise InputError(f"{text!r} is no span of the day", "Write it as 01:00-05:00 or 22:30-04:00.")
        begin, end = time.fromisoformat(found[1]), time.fromisoformat(found[3])
        if begin == end:
            raise InputError(f"the window {text} begins when it ends", "Leave it out to work at any time.")
        return cls(begin, end, zone)

    def around(self, now: float) -> tuple[float, float]:
        """Begin and end of the window that is open at a moment, else of the next one; seconds since the epoch."""
        today = datetime.fromtimestamp(now, self.zone).date()
        days = [today + timedelta(days=offset) for offset in range(-1, 4)]
        spans = [(self._at(day, self.begin), self._at(self._last(day), self.end)) for day in days]
        return next(span for span in spans if span[0] < span[1] and now < span[1])

    def words(self, moment: float) -> str:
        """A moment for people, with the time zone: "2026-03-01 01:00 CET"."""
        there = datetime.fromtimestamp(moment, self.zone)
        return (there if self.zone else there.astimezone()).strftime("%Y-%m-%d %H:%M %Z")

    @property
    def label(self) -> str:
        return f"{self.begin:%H:%M}-{self.end:%H:%M}"

    def _at(self, day: date, moment: time) -> float:
        return datetime.combine(day, moment, self.zone).timestamp()

    def _last(self, day: date) -> date:
        return day if self.begin < self.end else day + timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pause:
    """A campaign waits for the next window.

    Attributes:
        until: its begin, seconds since the epoch.
    """

    until: float
    reason: str


class Closing(Exception):
    """A window has no room for what comes next.

    Args:
        too_short: nor has any other of the same length.
    """

    def __init__(self, reason: str, too_short: bool = False) -> None:
        super().__init__(reason)
        self.too_short = too_short


@dataclass(frozen=True, slots=True)
class Opening:
    """One day's window; seconds since the epoch."""

    begin: float
    end: float

    def check_room(self, now: float, needed: float) -> None:
        """Whether a trial that needs so many seconds fits before the end. Raises Closing."""
        about = f"a trial and the way back take about {minutes(needed)}"
        if needed > self.end - self.begin:
            raise Closing(f"{about}, and the window is {minutes(self.end - self.begin)} long", too_short=True)
        if now + needed > self.end:
            raise Closing(f"{about}, and the window ends in {minutes(max(0.0, self.end - now))}")

    def check_open(self, now: float, trial: Trial) -> None:
        """Whether a trial may go on. Raises Closing."""
        if now <= self.end:
            return
        if trial.started_at - self.begin < _EARLY * (self.end - self.begin):
            raise Closing(f"trial {trial.number} had all of the window and did not end in it", too_short=True)
        raise Closing(f"the window ended in the midst of trial {trial.number}, which will be made again")

    def pause(self, closing: Closing, window: Window) -> Pause:
        """Until the next window.

        Raises:
            InputError: it would be too short as well.
        """
        if closing.too_short:
            raise InputError(
                str(closing),
                "Make the window longer (--between), or measure less (levels, temperatures, budget.cell_seconds); "
                "the same command goes on.",
            )
        return Pause(window.around(self.end)[0], str(closing))


ALWAYS = Opening(0.0, math.inf)
"""No window at all."""


def needed_s(spec: CampaignSpec, history: History) -> float:
    """How much time there should be for one more trial and for putting the service back, seconds: as the longest trial
    so far took; before the first, the time of measuring alone."""
    took = [trial.ended_at - trial.started_at for trial in history.finished if trial.ended_at is not None]
    loads = [trial.deployment.ready_s for trial in history.finished if trial.deployment is not None]
    measuring = len(spec.cells) * spec.budget.cell_seconds
    return _SPARE * (max(took, default=measuring) + max(loads, default=0.0))


def minutes(seconds: float) -> str:
    """A time span for people."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
