"""Numbers and times as people read them. One place, so that all renderers round alike."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from spectune.domain.knobs import KnobValue
from spectune.report.model import Interval, ReportData

NOTHING = "–"
MINUS = "\u2212"


def number(value: float | None) -> str:
    """Three significant digits without an exponent: "76.3", "103", "0.052", "12 300"."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 4)}f}".replace(",", "\u202f").replace("-", MINUS)


def spread(interval: Interval | None) -> str:
    """Value and bounds: "76.3 (74.1 to 78.5)"."""
    if interval is None:
        return NOTHING
    if interval.low is None or interval.high is None:
        return f"{number(interval.value)} (spread unknown)"
    return f"{number(interval.value)} ({number(interval.low)} to {number(interval.high)})"


def plus_minus(interval: Interval | None) -> str:
    """Value and half-width: "76.3 ±2.2"; "76.3 ±?" where the spread is unknown."""
    if interval is None:
        return NOTHING
    if interval.low is None or interval.high is None:
        return f"{number(interval.value)} ±?"
    half = (interval.high - interval.low) / 2
    digits = max(0, min(4, 2 - math.floor(math.log10(abs(interval.value))))) if interval.value else 1
    return f"{number(interval.value)} ±{half:.{digits}f}"


def percent(value: float, digits: int = 0) -> str:
    """A change in percent from a ratio: "+12 %"; a typographic minus, and never "-0 %"."""
    text = f"{100 * (value - 1):+.{digits}f}"
    if float(text) == 0:
        text = f"{0:.{digits}f}"
    return text.replace("-", MINUS) + "\u00a0%"


def gain(ratio: Interval | None) -> str:
    """A ratio's change: "+55 %"; one decimal where the interval is narrower than two points."""
    return NOTHING if ratio is None else percent(ratio.value, _digits(ratio))


def gain_bounds(ratio: Interval | None) -> str:
    """The change's interval: "+48 to +62 %"."""
    if ratio is None:
        return NOTHING
    if ratio.low is None or ratio.high is None:
        return "spread unknown"
    digits = _digits(ratio)
    return f"{percent(ratio.low, digits).removesuffix(chr(0xA0) + '%')} to {percent(ratio.high, digits)}"


def gain_spread(ratio: Interval | None) -> str:
    """Change with its interval: "+55 % (+48 to +62 %)"."""
    return NOTHING if ratio is None else f"{gain(ratio)} ({gain_bounds(ratio)})"


def _digits(ratio: Interval) -> int:
    return int(ratio.low is not None and ratio.high is not None and ratio.high - ratio.low < 0.02)


def size(count: int | None) -> str:
    """Bytes in binary units: "1.2 GiB"."""
    if count is None:
        return NOTHING
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{number(value)}\u00a0{units[0]}"


def count(value: int | None) -> str:
    """A whole number with narrow spaces between thousands."""
    return NOTHING if value is None else f"{value:,}".replace(",", "\u202f")


def tokens(value: int | None) -> str:
    """A number of tokens."""
    return NOTHING if value is None else f"{count(value)}\u00a0{'token' if value == 1 else 'tokens'}"


def minutes(value: float | None) -> str:
    """A duration: "48 s", "2.1 min", "3 h 05 min"."""
    if value is None:
        return NOTHING
    if value < 1:
        return f"{60 * value:.0f}\u00a0s"
    if value < 60:
        return f"{value:.1f}\u00a0min"
    return f"{int(value // 60)}\u00a0h {int(value % 60):02d}\u00a0min"


def seconds(value: float | None) -> str:
    """A latency: "52 ms", "1.24 s"."""
    if value is None:
        return NOTHING
    return f"{number(1000 * value)}\u00a0ms" if value < 1 else f"{number(value)}\u00a0s"


def moment(unix: float) -> str:
    """Date and time in UTC."""
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%d %H:%M UTC")


def clock(unix: float) -> str:
    """Time of day in UTC."""
    return datetime.fromtimestamp(unix, UTC).strftime("%H:%M:%S")


def domain(name: str) -> str:
    """A domain as a heading: "code edit"; "all" for the empty name."""
    return name.replace("_", " ") or "all"


def setting(value: KnobValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def plural(amount: int, word: str, words: str = "") -> str:
    """ "1 trial", "3 trials"."""
    return f"{amount} {word if amount == 1 else words or word + 's'}"


def measured_on(data: ReportData) -> str:
    """One line: when, how long, with how many launches."""
    effort = data.effort
    return (
        f"{moment(data.opened_at)} · {minutes(effort.minutes)} in {plural(effort.trials, 'trial')} "
        f"({plural(effort.launches, 'launch', 'launches')} of the server)"
    )
