"""The flattery report: how much faster a server looks when it is asked what flatters speculation.

Pure. The flattering test asks repetitive prompts at temperature 0 for answers of fixed length; many published figures
are made so. The other side is the workload of the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spectune.domain.bench_run import quotient
from spectune.domain.estimate import Estimate, Ratio
from spectune.domain.measurement import Measurement
from spectune.domain.metrics import MetricName
from spectune.report.bench_words import failures, label
from spectune.report.model import Interval
from spectune.report.pool import interval, ratio_interval


@dataclass(frozen=True, slots=True)
class FlatteredLevel:
    """One cell of the user's workload beside the flattering one at the same level.

    Attributes:
        level: label of the level.
        cell: label of the user's cell, with its sampling.
        flattering, asked: per-user speed, tok/s; None where none was measured.
        ratio: flattering / asked with its 95 % interval; bounds are None where the spread is unknown.
        flattering_length, asked_length: tokens per verify step; None where nothing was drafted or it is not told.
        length_ratio: of the two lengths. Servers tell sums alone, so it has no interval.
        flattering_failed, asked_failed: requests that were not served.
    """

    level: str
    cell: str
    flattering: Interval | None
    asked: Interval | None
    ratio: Interval | None
    flattering_length: float | None
    asked_length: float | None
    length_ratio: float | None
    flattering_failed: int = 0
    asked_failed: int = 0


@dataclass(frozen=True, slots=True)
class Flattery:
    """Attributes:
    levels: in the order in which the user's cells were measured.
    meaning: one sentence for people.
    """

    levels: tuple[FlatteredLevel, ...]
    meaning: str


def flattery(flattering: Sequence[Measurement], asked: Sequence[Measurement]) -> Flattery:
    """Each of the user's cells beside the flattering cell of its level; cells without one are left out."""
    by_level = {m.cell.level: m for m in flattering}
    levels = tuple(_level(by_level[m.cell.level], m) for m in asked if m.cell.level in by_level)
    return Flattery(levels, _meaning(levels))


def _level(flattering: Measurement, asked: Measurement) -> FlatteredLevel:
    speeds = [m.metrics.get(MetricName.PER_USER_SPEED) for m in (flattering, asked)]
    lengths = [m.acceptance.length if m.acceptance else None for m in (flattering, asked)]
    ratio = _ratio(speeds[0], speeds[1])
    return FlatteredLevel(
        level=asked.cell.level.label,
        cell=label(asked.cell),
        flattering=interval(speeds[0]) if speeds[0] else None,
        asked=interval(speeds[1]) if speeds[1] else None,
        ratio=ratio_interval(ratio) if ratio else None,
        flattering_length=lengths[0],
        asked_length=lengths[1],
        length_ratio=lengths[0] / lengths[1] if lengths[0] and lengths[1] else None,
        flattering_failed=failures(flattering),
        asked_failed=failures(asked),
    )


def _ratio(flattering: Estimate | None, asked: Estimate | None) -> Ratio | None:
    return quotient(flattering, asked) if flattering and asked else None


def _meaning(levels: Sequence[FlatteredLevel]) -> str:
    known = [level for level in levels if level.ratio is not None and level.ratio.low is not None]
    if not known:
        return "The spread of the speeds is not known, so that nothing can be said: measure longer (--seconds)."
    drafted = any(level.flattering_length or level.asked_length for level in levels)
    above = [level for level in known if level.ratio and level.ratio.low is not None and level.ratio.low > 1]
    below = [level for level in known if level.ratio and level.ratio.high is not None and level.ratio.high < 1]
    if above:
        most = max(above, key=lambda level: level.ratio.value if level.ratio else 0.0)
        assert most.ratio is not None
        where = "at every level" if len(above) == len(levels) else f"at {len(above)} of {len(levels)} levels"
        reason = (
            "a setting chosen by it is chosen for text that your users do not send"
            if drafted
            else "the server tells of no drafts, so that prompts and answers of other lengths are the likelier reason"
        )
        return (
            f"The flattering test shows more speed than your workload gets {where}, up to {most.ratio.value:.2f} times "
            f"({most.ratio.low:.2f} to {most.ratio.high:.2f}, {most.cell}): {reason}."
        )
    if below:
        return (
            "The flattering test does not flatter here: your workload gets more speed at "
            f"{len(below)} of {len(levels)} levels, and none shows less."
        )
    return (
        "No difference is shown between the flattering test and your workload: on this server, as it runs now, the "
        "flattering test does not mislead" + ("." if drafted else ", as far as it drafts at all.")
    )
