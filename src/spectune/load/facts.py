"""What the self-checks of a measurement look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spectune.domain.deployment import Counters
from spectune.domain.estimate import Estimate
from spectune.domain.metrics import MetricName
from spectune.domain.workload import Cell
from spectune.load.record import Recorded
from spectune.load.window import Window


@dataclass(frozen=True, slots=True)
class Facts:
    """What the self-checks look at.

    Attributes:
        kept: steady, served requests.
        everything: all requests, warm-up and drain included.
        lag_s: mean and largest lateness of the client's event loop, seconds.
        client_cpu: share of one core that the client used in the window.
        cores: usable cores of this machine.
        load_average: 1-minute load average at the start.
        window: when requests counted.
        thinking: mean number of users between two turns of a session, in the window.
        overflowed: an open loop ended because so many requests were in flight.
        cut_off: requests that counted and were cancelled after that.
        way_s: see HttpLoad.
    """

    cell: Cell
    kept: Sequence[Recorded]
    everything: Sequence[Recorded]
    metrics: dict[MetricName, Estimate]
    in_flight: float
    before: Counters | None
    after: Counters | None
    lag_s: tuple[float, float]
    client_cpu: float
    cores: int
    load_average: float
    window: Window
    thinking: float = 0.0
    overflowed: bool = False
    cut_off: int = 0
    way_s: float = 0.0
