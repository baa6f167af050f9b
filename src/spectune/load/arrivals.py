"""When requests arrive in an open loop: seeded schedules, each true to its name."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import accumulate, count

from spectune.domain.errors import InputError
from spectune.domain.workload import Arrival, Level, LevelKind, Prompt

Due = Callable[[Prompt], float]
"""When a prompt is to leave, in seconds from the start. To be asked once for each arrival, in their order."""


def due_times(level: Level, seconds: float, seed: int) -> Due:
    """The arrivals of an open-loop level.

    Args:
        seconds: time of the measurement, in which a RAMP rises; afterwards its rate stays.
        seed: the same level under the same seed has the same arrivals.

    Raises:
        InputError: a closed-loop level, or one whose numbers make no schedule. Of a trace, also when a prompt has no
            time or an earlier one than the prompt before it.
    """
    if level.kind is not LevelKind.RATE:
        raise InputError(f"{level.label} is a closed loop, in which nothing arrives by a schedule")
    if not (level.value > 0 and math.isfinite(level.value)):
        raise InputError(
            f"nothing arrives at a rate of {level.value:g}", "Give a rate above 0, in requests per second."
        )
    if level.arrival is Arrival.TRACE:
        return _Trace(level.value)
    times = _schedule(level, seconds, random.Random(f"{seed}/{level.key}"))
    return lambda _: next(times)


def _schedule(level: Level, seconds: float, draw: random.Random) -> Iterator[float]:
    rate = level.value
    if level.arrival is Arrival.CONSTANT:
        return (n / rate for n in count())
    if level.arrival is Arrival.GAMMA:
        burstiness = level.burstiness
        if not (burstiness > 0 and math.isfinite(burstiness)):
            raise InputError(
                f"gamma arrivals cannot have a burstiness of {burstiness:g}", "1 is Poisson, larger is burstier."
            )
        # Shape 1/b has a squared coefficient of variation of b; the scale makes the mean gap 1/rate.
        return accumulate(draw.gammavariate(1 / burstiness, burstiness / rate) for _ in count())
    unit = accumulate(draw.expovariate(1.0) for _ in count())
    if level.arrival is Arrival.RAMP:
        return (_on_ramp(expected, rate, seconds) for expected in unit)
    return (expected / rate for expected in unit)


def _on_ramp(expected: float, rate: float, seconds: float) -> float:
    """The time at which so many arrivals are expected: a Poisson process of any rate is one of rate 1 on this scale.

    While the rate rises as rate * t / seconds, rate * t^2 / (2 * seconds) arrivals are expected up to t.
    """
    whole = rate * seconds / 2
    if expected <= whole:
        return math.sqrt(2 * seconds * expected / rate)
    return seconds + (expected - whole) / rate


class _Trace:
    """Recorded times from the first prompt on, at `speed` times their pace."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._first: float | None = None
        self._last = -math.inf

    def __call__(self, prompt: Prompt) -> float:
        due = prompt.due_s
        if due is None:
            raise InputError(
                f"prompt {prompt.id} has no arrival time, so a trace cannot be replayed",
                "Take a workload that is a trace, or other arrivals (constant, poisson, gamma, ramp).",
            )
        if due < self._last:
            raise InputError(
                f"prompt {prompt.id} arrives {self._last - due:g} s before the prompt ahead of it",
                "Sort the trace by its arrival times.",
            )
        self._last = due
        self._first = due if self._first is None else self._first
        return (due - self._first) / self._speed
