"""The per-user speed so far, kept so that looking at it while streams arrive costs next to nothing."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import numpy as np

from spectune.domain.estimate import Estimate
from spectune.domain.measurement import RequestRecord
from spectune.domain.ports import Limits
from spectune.load import intervals
from spectune.load.enough import Enough


class Speeds:
    """Gathers requests that count; `requests` is how many."""

    def __init__(self) -> None:
        self.requests = 0
        self._sent_ns = array("q")
        self._tokens = array("d")
        self._seconds = array("d")

    def add(self, record: RequestRecord) -> None:
        self.requests += 1
        seconds = record.decode_s
        if seconds and record.output_tokens:
            self._sent_ns.append(record.sent_ns)
            self._tokens.append(record.output_tokens - 1)
            self._seconds.append(seconds)

    def estimate(self) -> Estimate | None:
        """As summary.per_user_speed of the requests in the order in which they were sent."""
        return intervals.ratio(*self.series())

    def series(self) -> tuple[intervals.Floats, intervals.Floats]:
        """Tokens and seconds of the requests in the order in which they were sent."""
        order = np.argsort(np.array(self._sent_ns), kind="stable")
        return np.array(self._tokens)[order], np.array(self._seconds)[order]


class Precision:
    """A Listener for whom it is enough once the speed is known as well as the limits ask.

    Args:
        progress: hears of the speeds with each request.
    """

    def __init__(self, limits: Limits, progress: Callable[[Speeds], None]) -> None:
        self._progress = progress
        self._speeds = Speeds()
        self._enough = Enough(limits.precision, limits.min_requests)

    def add(self, record: RequestRecord) -> None:
        self._speeds.add(record)
        self._progress(self._speeds)

    def is_enough(self) -> bool:
        """See Enough."""
        return self._enough.is_due(self._speeds.requests) and self._enough.look(*self._speeds.series())
