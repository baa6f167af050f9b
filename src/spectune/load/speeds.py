"""The per-user speed so far, kept so that looking at it while streams arrive costs next to nothing."""

from __future__ import annotations

from array import array

import numpy as np

from spectune.domain.estimate import Estimate
from spectune.domain.measurement import RequestRecord
from spectune.load import intervals


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
        order = np.argsort(np.array(self._sent_ns), kind="stable")
        return intervals.ratio(np.array(self._tokens)[order], np.array(self._seconds)[order])
