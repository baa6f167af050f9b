"""How often the interval at which the stop rule stops contains the truth, on requests that resemble their neighbours.

    python -m bench.loadgen.coverage [--series 400]

A request has a length (gamma, mean 200 tokens) and a slowness exp(cv * x), where x is standard normal: independent, an
AR(1) series, or the sum of both (each request has its own, on a machine that wanders).
The truth is the limit of tokens / seconds. The rule is the one of the load generator, with 2 % asked for.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.signal import lfilter

from bench.loadgen.tables import table
from spectune.load import intervals
from spectune.load.enough import Enough
from spectune.load.intervals import Floats

SERIES = 400
_MOST = 2000
_PRECISION = 0.02
_FEWEST = 4
_GOOD = (0.92, 0.97)


@dataclass(frozen=True, slots=True)
class Weather:
    """How requests resemble each other.

    Attributes:
        correlation: of what they have in common, from one request to the next.
        common: its share of the variance; the rest is each request's own.
        claimed: whether coverage is claimed; else it is shown as the limit of the method.
    """

    name: str
    correlation: float
    common: float
    claimed: bool = True


WEATHERS = (
    Weather("independent", 0.0, 0.0),
    Weather("AR(1), 0.5", 0.5, 1.0),
    Weather("AR(1), 0.8", 0.8, 1.0),
    Weather("half AR(1), 0.8, half their own", 0.8, 0.5),
    Weather("a quarter AR(1), 0.9, the rest their own", 0.9, 0.25, claimed=False),
    Weather("AR(1), 0.9", 0.9, 1.0, claimed=False),
    Weather("half AR(1), 0.95, half their own", 0.95, 0.5, claimed=False),
)


def slowness(rng: np.random.Generator, weather: Weather, n: int) -> Floats:
    """A series of standard normal values."""
    own = rng.standard_normal(n)
    r = weather.correlation
    steps = math.sqrt(1 - r * r) * rng.standard_normal(n)
    wander, _ = lfilter([1.0], [1.0, -r], steps, zi=[r * rng.standard_normal()])
    return np.asarray(math.sqrt(weather.common) * wander + math.sqrt(1 - weather.common) * own, dtype=float)


def requests(rng: np.random.Generator, weather: Weather, cv: float) -> tuple[Floats, Floats, float]:
    """Tokens and seconds of requests in the order in which they were sent, and the true tokens per second."""
    tokens = np.maximum(8.0, np.round(rng.gamma(4, 50, _MOST)))
    return tokens, tokens * np.exp(cv * slowness(rng, weather, _MOST)), math.exp(-cv * cv / 2)


def stop(tokens: Floats, seconds: Floats) -> tuple[int, bool]:
    """How many requests the rule takes, and whether it stopped before there were no more."""
    enough = Enough(_PRECISION, _FEWEST)
    for n in range(_FEWEST, len(tokens) + 1):
        if enough.is_due(n) and enough.look(tokens[:n], seconds[:n]):
            return n, True
    return len(tokens), False


def rows(series: int = SERIES) -> list[dict[str, Any]]:
    found = []
    for weather in WEATHERS:
        for cv in (0.05, 0.10):
            rng = np.random.default_rng(7)
            hits, stopped, lengths = 0, 0, []
            for _ in range(series):
                tokens, seconds, truth = requests(rng, weather, cv)
                n, by_rule = stop(tokens, seconds)
                estimate = intervals.ratio(tokens[:n], seconds[:n])
                assert estimate is not None
                hits += estimate.low <= truth <= estimate.high
                stopped += by_rule
                lengths.append(n)
            found.append(
                {
                    "weather": weather.name, "claimed": weather.claimed, "cv": cv, "coverage": hits / series,
                    "stopped": stopped / series, "requests": float(np.median(lengths)), "series": series,
                }
            )  # fmt: skip
    return found


def table_of(found: Sequence[dict[str, Any]]) -> str:
    def mark(row: dict[str, Any]) -> str:
        if not row["claimed"]:
            return "beyond"
        return "ok" if _GOOD[0] <= row["coverage"] <= _GOOD[1] else "**MISS**"

    head = [
        "slowness of requests",
        "its spread",
        "coverage of the 95 % interval",
        "",
        "stopped by the rule",
        "after, median",
    ]
    return table(
        head,
        [
            [
                row["weather"], f"{100 * row['cv']:.0f} %", f"{100 * row['coverage']:.1f} %", mark(row),
                f"{100 * row['stopped']:.0f} %", f"{row['requests']:,.0f} requests",
            ]
            for row in found
        ],
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=SERIES)
    print(table_of(rows(parser.parse_args().series)))


if __name__ == "__main__":
    main()
