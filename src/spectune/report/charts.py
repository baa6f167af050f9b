"""The report's charts: dot plots of speed, the frontier, accept length by depth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from spectune.report import words
from spectune.report.figure import (
    Chart,
    Json,
    axis,
    axis_title,
    band,
    emphasised,
    error_bar,
    escaped,
    ident_of,
    interval_range,
    layout_of,
    padded,
    spread_out,
    text_at,
)
from spectune.report.model import CandidateCell, CandidateData, CellInfo, FrontierPoint, Interval, ReportData

ROW_PX = 25
LABEL_PX = 6.7
MARKS = ("circle", "square", "diamond", "triangle-up", "cross", "star")
"""Marker shapes of the frontier, by level."""


def speed_charts(data: ReportData, cells: Sequence[CellInfo], prefix: str, metric: str) -> Iterator[Chart]:
    """One dot plot a cell: every candidate's speed with its interval against the baseline's band."""
    for cell in cells:
        rows = [(c, getattr(found, metric)) for c in data.candidates if (found := in_cell(c, cell.key)) is not None]
        title = metric.replace("_", "-") + " speed"
        chart = dot_plot(f"{prefix}-{cell.key}", cell.level_label, title, [(c, v) for c, v in rows if v is not None])
        if chart is not None:
            yield chart


def domain_charts(data: ReportData, cell: CellInfo) -> Iterator[Chart]:
    """One dot plot a domain, in one cell."""
    for domain in data.domains:
        rows = [
            (c, found.by_domain[domain])
            for c in data.candidates
            if (found := in_cell(c, cell.key)) is not None and domain in found.by_domain
        ]
        chart = dot_plot(f"domain-{cell.key}-{domain}", words.domain(domain), "per-user speed", rows)
        if chart is not None:
            yield chart


def in_cell(candidate: CandidateData, key: str) -> CandidateCell | None:
    return next((cell for cell in candidate.cells if cell.cell == key), None)


def dot_plot(ident: str, title: str, quantity: str, rows: Sequence[tuple[CandidateData, Interval]]) -> Chart | None:
    """Candidates from top to bottom, value to the right of the plot, the baseline's interval as a band."""
    if not rows:
        return None
    last = len(rows) - 1
    traces: list[Json] = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [speed.value],
            "y": [last - index],
            "error_x": error_bar(speed, f"@c:{c.id}"),
            "marker": {"size": 11 if c.is_answer else 9, "color": f"@c:{c.id}", "line": {"width": 0}},
            "hovertemplate": f"{escaped(c.label)}<br>{words.spread(speed)} tok/s<extra></extra>",
        }
        for index, (c, speed) in enumerate(rows)
    ]
    ticks = [emphasised(escaped(c.label, 24), c) for c, _ in rows]
    height = 52 + ROW_PX * len(rows)
    layout = layout_of(height, left=22 + LABEL_PX * max(min(len(c.label), 24) for c, _ in rows), right=46)
    layout["xaxis"] = axis(range=interval_range([v for _, v in rows]), nticks=5)
    layout["yaxis"] = {
        **axis(range=[-0.6, last + 0.6]),
        "tickvals": [last - i for i in range(len(rows))],
        "ticktext": ticks,
        "showgrid": False,
    }
    layout["annotations"] = [
        text_at(words.number(v.value), x=1.0, y=last - i, xref="paper", xanchor="left", xshift=8, strong=c.is_answer)
        for i, (c, v) in enumerate(rows)
    ]
    layout["shapes"] = [band(speed) for c, speed in rows if c.is_baseline and speed.low is not None]
    best = max(rows, key=lambda row: row[1].value)
    alt = f"{quantity}, {title}: highest is {best[0].label} with {words.spread(best[1])} tok/s"
    base = next((v for c, v in rows if c.is_baseline), None)
    if base is not None and not best[0].is_baseline:
        alt += f"; the baseline has {words.spread(base)}"
    return Chart(ident_of(ident), title, alt + ".", height, {"data": traces, "layout": layout})


def frontier_chart(data: ReportData, temperature: float | None) -> Chart | None:
    """Per-user speed to the right, aggregate speed up; area of a mark is KV room, its shape the level."""
    cells = {cell.key: cell for cell in data.cells_at(temperature)}
    points = [point for point in data.frontier if point.cell in cells]
    if not points:
        return None
    order = list(dict.fromkeys(cell.level for cell in cells.values()))
    most_kv = max((p.kv_tokens or 0 for p in points), default=0)
    traces: list[Json] = []
    for point in sorted(points, key=lambda p: not p.dominated):
        cell = cells[point.cell]
        about = f"{escaped(data.label(point.candidate))}, {cell.level_label}"
        hover = (
            f"{about}<br>per user {words.number(point.per_user_tok_s)} tok/s, all together "
            f"{words.number(point.aggregate_tok_s)} tok/s<br>KV room {words.count(point.kv_tokens)} tokens"
            f"{'<br>dominated' if point.dominated else ''}<extra></extra>"
        )
        marker: dict[str, Json] = {
            "size": _mark_size(point, most_kv),
            "symbol": MARKS[order.index(cell.level) % len(MARKS)] + ("-open" if point.dominated else ""),
            "color": "@faint" if point.dominated else f"@c:{point.candidate}",
        }
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [point.per_user_tok_s],
                "y": [point.aggregate_tok_s],
                "marker": marker,
                "hovertemplate": hover,
            }
        )
    layout = layout_of(420, bottom=48, left=56, right=16)
    x = [p.per_user_tok_s for p in points]
    y = [p.aggregate_tok_s for p in points]
    layout["xaxis"] = {**axis(range=padded(x, 0.10, 0.08), nticks=7), "title": axis_title("per-user speed, tok/s")}
    names = list(_named(points))
    # Half a name stands above its place, and the highest one is to be seen whole.
    tops = [name.place + 0.05 * (max(y) - min(y)) for name in names]
    upright = padded(y, 0.14, max(0.10, *((top - max(y)) / ((max(y) - min(y)) or 1.0) for top in tops)))
    layout["yaxis"] = {**axis(range=upright, nticks=7), "title": axis_title("aggregate speed, tok/s")}
    layout["annotations"] = [*_frontier_labels(data, names), *_level_labels(points, cells)]
    best = [p for p in points if not p.dominated]
    alt = "Not dominated: " + "; ".join(
        f"{data.label(p.candidate)} at {cells[p.cell].level_label} ({words.number(p.per_user_tok_s)} per user, "
        f"{words.number(p.aggregate_tok_s)} all together)"
        for p in sorted(best, key=lambda p: -p.per_user_tok_s)
    )
    label = next(iter(cells.values())).temperature_label
    return Chart(ident_of(f"frontier-{label}"), label, alt + ".", 420, {"data": traces, "layout": layout})


@dataclass(frozen=True, slots=True)
class _Named:
    """A point of the frontier, the height at which its name stands, and whether that is to its left."""

    point: FrontierPoint
    place: float
    leftwards: bool


def _named(points: Sequence[FrontierPoint]) -> Iterator[_Named]:
    """The points that nothing dominates.

    Names stand to the right of their points, but above the cloud and leftwards where the right edge is near: a cloud
    falls to the left, so that there is room.
    """
    best = sorted((p for p in points if not p.dominated), key=lambda p: p.aggregate_tok_s)
    low, high = min(p.per_user_tok_s for p in points), max(p.per_user_tok_s for p in points)
    height = max(p.aggregate_tok_s for p in points) - min(p.aggregate_tok_s for p in points) or 1.0
    near_edge = [p.per_user_tok_s > low + 0.5 * (high - low) for p in best]
    tops = {p.cell: max(q.aggregate_tok_s for q in points if q.cell == p.cell) for p in best}
    ranks = [sum(q.cell == p.cell for q in best[:index]) for index, p in enumerate(best)]
    wanted = [
        tops[p.cell] + height * (0.08 + 0.06 * rank) if edge else p.aggregate_tok_s
        for p, rank, edge in zip(best, ranks, near_edge, strict=True)
    ]
    places = spread_out(wanted, gap=height * 0.06)
    for point, place, edge in zip(best, places, near_edge, strict=True):
        yield _Named(point, place, edge)


def _frontier_labels(data: ReportData, names: Sequence[_Named]) -> Iterator[Json]:
    """Each name with a thin line to its point."""
    for name in names:
        point = name.point
        yield {
            **text_at(
                emphasised(escaped(data.label(point.candidate), 26), data.candidate(point.candidate)),
                x=point.per_user_tok_s,
                y=point.aggregate_tok_s,
                xanchor="right" if name.leftwards else "left",
            ),
            "showarrow": True,
            "arrowhead": 0,
            "arrowwidth": 1,
            "arrowcolor": "@faint",
            "standoff": 6,
            "ax": -14 if name.leftwards else 18,
            "ayref": "y",
            "ay": name.place,
        }


def _level_labels(points: Sequence[FrontierPoint], cells: Mapping[str, CellInfo]) -> list[Json]:
    """The level's name below its cloud of points."""
    labels: list[Json] = []
    for key, cell in cells.items():
        cloud = [p for p in points if p.cell == key]
        if cloud:
            lowest = min(cloud, key=lambda p: p.aggregate_tok_s)
            text = text_at(cell.level_label, x=lowest.per_user_tok_s, y=lowest.aggregate_tok_s, xanchor="center")
            labels.append({**text, "yshift": -17, "font": {"size": 12, "color": "@muted"}})
    return labels


def _mark_size(point: FrontierPoint, most: int) -> float:
    """Diameter whose area follows the KV room; 11 pixels for the roomiest and where room is unknown."""
    if not point.kv_tokens or not most:
        return 11.0
    return float(max(5.0, 11.0 * (point.kv_tokens / most) ** 0.5))


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    points: tuple[tuple[int, float], ...]
    whole: bool


def acceptance_charts(data: ReportData) -> Iterator[Chart]:
    """Accept length over depth: one chart a family and temperature, a line for all text and thinner ones by domain.

    A family with a single depth has no curve and no chart.
    """
    drafting = sorted((c for c in data.candidates if c.depth > 0 and c.acceptance), key=lambda c: (c.family, c.depth))
    for family, members in groupby(drafting, key=lambda c: c.family):
        group = list(members)
        for temperature in data.temperatures:
            curves = [c for c in _curves(data, group, temperature) if len(c.points) > 1]
            if curves:
                label = data.cells_at(temperature)[0].temperature_label
                yield _acceptance_chart(f"accept-{family}-{label}", f"{family}, {label}", group, curves)


def _curves(data: ReportData, group: Sequence[CandidateData], temperature: float | None) -> Iterator[Curve]:
    for domain in ("", *data.domains):
        points = tuple(
            (candidate.depth, row.length)
            for candidate in group
            for row in candidate.acceptance
            if row.temperature == temperature and row.domain == domain and row.length is not None
        )
        yield Curve(words.domain(domain) if domain else "all text", points, not domain)


def _acceptance_chart(ident: str, title: str, group: Sequence[CandidateData], curves: Sequence[Curve]) -> Chart:
    colour = f"@c:{group[len(group) // 2].id}"
    traces: list[Json] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "x": [k for k, _ in curve.points],
            "y": [length for _, length in curve.points],
            "line": {"color": colour if curve.whole else "@faint", "width": 3 if curve.whole else 1.5},
            "marker": {"size": 8 if curve.whole else 5, "color": colour if curve.whole else "@faint"},
            "hovertemplate": f"{escaped(curve.name)}, k = %{{x}}: %{{y:.2f}} tokens per step<extra></extra>",
        }
        for curve in sorted(curves, key=lambda c: c.whole)
    ]
    depths = sorted({k for curve in curves for k, _ in curve.points})
    ends = [curve.points[-1] for curve in curves]
    highest = max(length for curve in curves for _, length in curve.points)
    span = (highest - 1) * 1.12 or 1.0
    places = spread_out([end[1] for end in ends], gap=span * 0.085)
    layout = layout_of(270, bottom=46, left=44, right=24 + LABEL_PX * min(16, max(len(curve.name) for curve in curves)))
    padding = max(0.3, 0.06 * (depths[-1] - depths[0]))
    layout["xaxis"] = {
        **axis(range=[depths[0] - padding, depths[-1] + padding]),
        "tickvals": list(depths),
        "title": axis_title("depth k, tokens drafted per step"),
    }
    layout["yaxis"] = axis(range=[1 - span * 0.06, 1 + span], nticks=6)
    layout["annotations"] = [
        text_at(escaped(c.name, 16), x=end[0], y=y, xanchor="left", xshift=10, strong=c.whole)
        for c, end, y in zip(curves, ends, places, strict=True)
    ]
    alt = f"Tokens per verify step, {title}: " + "; ".join(
        f"{curve.name} {', '.join(f'{length:.2f} at k = {k}' for k, length in curve.points)}" for curve in curves
    )
    return Chart(ident_of(ident), title, alt + ".", 270, {"data": traces, "layout": layout})
