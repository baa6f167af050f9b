"""Parts of Plotly figures, in plain dictionaries.

Colours are names ("@ink", "@c:<candidate id>") that the page resolves for light paper, dark paper and print. All text
is escaped here, because Plotly reads a few HTML tags in labels.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spectune.report.model import CandidateData, Interval

Json = str | float | bool | None | Mapping[str, "Json"] | Sequence["Json"]
Figure = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure with its heading and what it shows, in words."""

    id: str
    title: str
    alt: str
    height: int
    figure: Figure


def escaped(text: str, limit: int = 60) -> str:
    """Text as Plotly shows it literally, cut where it would not fit."""
    return html.escape(text if len(text) <= limit else text[: limit - 1] + "…")


def spread_out(places: Sequence[float], gap: float) -> list[float]:
    """Places moved apart to at least `gap`, in their order, as little as needed and around their own middle."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    clusters: list[list[int]] = []
    middles: list[float] = []
    for index in order:
        clusters.append([index])
        middles.append(places[index])
        while len(clusters) > 1 and _overlap(clusters, middles, gap):
            joined = clusters[-2] + clusters[-1]
            clusters[-2:] = [joined]
            middles[-2:] = [sum(places[i] for i in joined) / len(joined)]
    moved = list(places)
    for cluster, middle in zip(clusters, middles, strict=True):
        for rank, index in enumerate(cluster):
            moved[index] = middle + gap * (rank - (len(cluster) - 1) / 2)
    return moved


def _overlap(clusters: Sequence[Sequence[int]], middles: Sequence[float], gap: float) -> bool:
    room = gap * (len(clusters[-2]) + len(clusters[-1])) / 2
    return middles[-1] - middles[-2] < room


def interval_range(speeds: Sequence[Interval]) -> list[Json]:
    lows = [speed.value if speed.low is None else speed.low for speed in speeds]
    highs = [speed.value if speed.high is None else speed.high for speed in speeds]
    return padded([*lows, *highs], 0.06, 0.06)


def padded(values: Sequence[float], before: float, after: float) -> list[Json]:
    low, high = min(values), max(values)
    span = (high - low) or abs(high) or 1.0
    return [low - before * span, high + after * span]


def error_bar(speed: Interval, colour: str) -> dict[str, Json]:
    if speed.low is None or speed.high is None:
        return {"visible": False}
    return {
        "type": "data",
        "symmetric": False,
        "array": [speed.high - speed.value],
        "arrayminus": [speed.value - speed.low],
        "thickness": 2,
        "width": 0,
        "color": colour,
    }


def band(speed: Interval) -> dict[str, Json]:
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": speed.low,
        "x1": speed.high,
        "y0": 0,
        "y1": 1,
        "fillcolor": "@band",
        "line": {"width": 0},
        "layer": "below",
    }


def layout_of(height: int, left: float, right: float, bottom: int = 30) -> dict[str, Json]:
    return {
        "height": height,
        "margin": {"l": round(left), "r": round(right), "t": 8, "b": bottom},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {
            "family": "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif",
            "size": 12,
            "color": "@ink",
        },
        "showlegend": False,
        "dragmode": False,
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": "@paper", "bordercolor": "@line", "font": {"color": "@ink"}},
    }


def axis(range: Sequence[Json], nticks: int = 0) -> dict[str, Json]:
    axis: dict[str, Json] = {
        "range": list(range),
        "fixedrange": True,
        "gridcolor": "@line",
        "zeroline": False,
        "ticks": "",
        "tickfont": {"color": "@muted"},
    }
    return {**axis, "nticks": nticks} if nticks else axis


def axis_title(text: str) -> dict[str, Json]:
    return {"text": text, "font": {"size": 12, "color": "@muted"}, "standoff": 8}


def text_at(
    text: str, *, x: float, y: float, xanchor: str, xref: str = "x", xshift: int = 0, strong: bool = False
) -> dict[str, Json]:
    return {
        "text": f"<b>{text}</b>" if strong else text,
        "x": x,
        "y": y,
        "xref": xref,
        "yref": "y",
        "xanchor": xanchor,
        "yanchor": "middle",
        "xshift": xshift,
        "showarrow": False,
        "font": {"size": 12, "color": "@ink"},
    }


def emphasised(text: str, candidate: CandidateData | None) -> str:
    return f"<b>{text}</b>" if candidate is not None and candidate.is_answer else text


def ident_of(text: str) -> str:
    """An element id from any text; distinct texts of one report stay distinct by their hash."""
    safe = "".join(char if char.isalnum() and char.isascii() else "-" for char in text)
    return f"{safe[:40]}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]
