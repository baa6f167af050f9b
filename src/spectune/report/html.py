"""The report as one HTML file that loads nothing: styles, scripts, charts and data are inside it.

A content security policy forbids all network access and every script but the two that are named by their hash, so that
text from models, logs or file names cannot run even if it were not escaped.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from itertools import chain

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from spectune.domain.metrics import METRICS
from spectune.report import words
from spectune.report.charts import acceptance_charts, domain_charts, frontier_chart, in_cell, speed_charts
from spectune.report.figure import Chart
from spectune.report.model import BestRow, Interval, ReportData
from spectune.report.palette import shades


def render_html(data: ReportData) -> str:
    """The whole page. About 5 MB, nearly all of it Plotly, which is left out where there is nothing to draw."""
    script = _asset("report.js")
    speed = {
        metric: {
            cells[0].temperature_label: list(speed_charts(data, cells, metric, metric))
            for temperature in data.temperatures
            if (cells := data.cells_at(temperature))
        }
        for metric in ("per_user", "aggregate")
    }
    frontiers = [chart for t in data.temperatures if (chart := frontier_chart(data, t)) is not None]
    accepts = list(acceptance_charts(data))
    domains = {cell.label: list(domain_charts(data, cell)) for cell in data.cells}
    charts = [*chain(*speed["per_user"].values(), *speed["aggregate"].values()), *frontiers, *accepts]
    charts += chain(*domains.values())
    plotly = _plotly() if charts else ""
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            data=data,
            words=words,
            metrics=METRICS,
            style=Markup(_asset("report.css") + _candidate_styles(data)),
            policy=_policy(plotly, script),
            plotly=Markup(plotly),
            script=Markup(script),
            figures=_json(
                {"palette": {k: asdict(v) for k, v in shades(data.candidates).items()}, "figures": _figures(charts)}
            ),
            speed=speed,
            frontiers=frontiers,
            accepts=accepts,
            domains={label: found for label, found in domains.items() if found},
            best=_best_by_cell(data),
            bar=gain_bar(data.answer.gain, data.min_gain),
            in_cell=in_cell,
            colour_class=_colour_classes(data),
        )
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("spectune.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _asset(name: str) -> str:
    return (files("spectune.report") / "templates" / name).read_text("utf-8")


@cache
def _plotly() -> str:
    """The library's own minified script, with line ends as an HTML parser leaves them, so that its hash holds."""
    from plotly.offline import get_plotlyjs  # only a page with charts pays for this import

    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


def _policy(*scripts: str) -> str:
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _figures(charts: Sequence[Chart]) -> Mapping[str, object]:
    return {chart.id: chart.figure for chart in charts}


def _json(value: object) -> Markup:
    """JSON that cannot end the element it stands in, whatever its strings hold."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e"))


def _colour_classes(data: ReportData) -> Mapping[str, str]:
    return {candidate.id: f"k{index}" for index, candidate in enumerate(data.candidates)}


def _candidate_styles(data: ReportData) -> str:
    """A class a candidate that sets its colour; values are our own hexadecimal colours, never text from outside."""
    chosen, classes = shades(data.candidates), _colour_classes(data)
    light = "".join(f".{classes[key]}{{--own:{shade.light}}}" for key, shade in chosen.items())
    dark = "".join(f".{classes[key]}{{--own:{shade.dark}}}" for key, shade in chosen.items())
    return f"\n{light}\n@media screen and (prefers-color-scheme:dark){{{dark}}}\n"


def _best_by_cell(data: ReportData) -> Mapping[str, Mapping[str, BestRow]]:
    rows: dict[str, dict[str, BestRow]] = {}
    for row in data.best:
        rows.setdefault(row.cell, {})[row.domain] = row
    return {cell.key: rows[cell.key] for cell in data.cells if cell.key in rows}


def gain_bar(ratio: Interval | None, min_gain: float) -> Mapping[str, float] | None:
    """Where zero, the interval and the value lie on a bar, in percent of its width; None without an interval."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return None
    low, high = min(1.0, ratio.low), max(1.0 + min_gain, ratio.high)
    pad = 0.08 * (high - low)
    start, span = low - pad, (high - low) + 2 * pad

    def place(value: float) -> float:
        return round(100 * (value - start) / span, 2)

    return {
        "zero": place(1.0),
        "low": place(ratio.low),
        "width": round(place(ratio.high) - place(ratio.low), 2),
        "value": place(ratio.value),
        "least": place(1.0 + min_gain),
    }
