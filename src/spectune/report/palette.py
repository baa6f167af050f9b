"""Colours: one for each candidate, the same in every chart and table, on light and on dark paper.

The hue tells the family of methods (blue for draft models, orange for n-grams, and so on), the strength tells the
depth, the baseline is always neutral. The hues differ for every common kind of colour blindness, and no colour carries
a meaning that a label does not carry too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spectune.report.model import CandidateData


@dataclass(frozen=True, slots=True)
class Shade:
    """One colour as CSS hexadecimal, for light and for dark paper."""

    light: str
    dark: str


BASELINE = Shade("#4d5661", "#b4bcc6")

_RAMPS: dict[str, tuple[Shade, Shade]] = {
    "draft": (Shade("#6cabe0", "#3f7fbd"), Shade("#0a3d7c", "#b5dbff")),
    "ngram": (Shade("#e08a2e", "#b5671a"), Shade("#8a4300", "#ffc98a")),
    "mtp": (Shade("#3fa98c", "#2b8069"), Shade("#00513d", "#93e2c9")),
    "other": (Shade("#b684bd", "#8d5c95"), Shade("#5e2a69", "#e5bdeb")),
}
"""From the shallowest to the deepest depth, by family of methods."""

_FAMILY = {
    "draft": "draft",
    "eagle": "draft",
    "eagle3": "draft",
    "dflash": "draft",
    "ngram": "ngram",
    "ngram-pool": "ngram",
    "suffix": "ngram",
    "mtp": "mtp",
}


def shades(candidates: Sequence[CandidateData]) -> dict[str, Shade]:
    """Candidate id -> its colour."""
    chosen = {c.id: BASELINE for c in candidates if c.is_baseline}
    for ramp, (first, last) in _RAMPS.items():
        members = [c for c in candidates if not c.is_baseline and _FAMILY.get(c.method, "other") == ramp]
        members.sort(key=lambda c: (c.depth, c.label))
        for index, member in enumerate(members):
            part = index / (len(members) - 1) if len(members) > 1 else 0.5
            chosen[member.id] = Shade(_mix(first.light, last.light, part), _mix(first.dark, last.dark, part))
    return chosen


def _mix(first: str, last: str, part: float) -> str:
    channels = ((int(first[i : i + 2], 16), int(last[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in channels)
