from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.report.charts import acceptance_charts, domain_charts, frontier_chart, speed_charts
from spectune.report.data import build
from spectune.report.figure import Chart, escaped, spread_out
from spectune.report.model import ReportData
from spectune.report.palette import BASELINE, shades
from tests.report import sample

DATA = build(sample.decided(), "c1")


def charts(data: ReportData) -> Iterator[Chart]:
    yield from speed_charts(data, data.cells, "per_user", "per_user")
    yield from speed_charts(data, data.cells, "aggregate", "aggregate")
    for temperature in data.temperatures:
        if (chart := frontier_chart(data, temperature)) is not None:
            yield chart
    for cell in data.cells:
        yield from domain_charts(data, cell)
    yield from acceptance_charts(data)


@pytest.mark.parametrize("name", sorted(sample.HISTORIES))
def test_plotly_accepts_every_figure(name: str) -> None:
    data = build(sample.HISTORIES[name](), "c1")
    colours = shades(data.candidates)
    for chart in charts(data):
        text = re.sub(r'"@c:([0-9a-f]+)"', lambda m: f'"{colours[m[1]].light}"', json.dumps(chart.figure))
        figure = json.loads(re.sub(r'"@[a-z]+"', '"#123456"', text))
        go.Figure(figure)
        assert chart.alt


def test_every_cell_temperature_and_curve_has_its_chart() -> None:
    found = list(charts(DATA))
    assert len(found) == 6 + 6 + 2 + 6 * 4 + 2
    assert len({chart.id for chart in found}) == len(found)


def test_a_dot_plot_names_each_candidate_once_and_marks_the_baseline() -> None:
    chart = next(speed_charts(DATA, DATA.cells[:1], "x", "per_user"))
    figure = json.loads(json.dumps(chart.figure))
    names = figure["layout"]["yaxis"]["ticktext"]
    assert names[0] == "none"
    assert "<b>draft k=3</b>" in names
    assert len(names) == len(set(names)) == len(figure["data"]) == 7
    low, high = figure["layout"]["xaxis"]["range"]
    for trace in figure["data"]:
        assert low < trace["x"][0] - trace["error_x"]["arrayminus"][0]
        assert trace["x"][0] + trace["error_x"]["array"][0] < high
    assert len(figure["layout"]["shapes"]) == 1


def test_the_frontier_names_what_is_not_dominated() -> None:
    chart = frontier_chart(DATA, 0.0)
    assert chart is not None
    figure = json.loads(json.dumps(chart.figure))
    keys = {cell.key for cell in DATA.cells_at(0.0)}
    best = [point for point in DATA.frontier if point.cell in keys and not point.dominated]
    named = [note for note in figure["layout"]["annotations"] if note["showarrow"]]
    assert len(named) == len(best)
    open_marks = [trace for trace in figure["data"] if trace["marker"]["symbol"].endswith("-open")]
    assert len(open_marks) == sum(point.dominated for point in DATA.frontier if point.cell in keys)


@pytest.mark.parametrize("name", sorted(sample.HISTORIES))
def test_no_name_of_the_frontier_is_cut_off_at_the_top(name: str) -> None:
    data = build(sample.HISTORIES[name](), "c1")
    for temperature in data.temperatures:
        chart = frontier_chart(data, temperature)
        if chart is None:
            continue
        layout = json.loads(json.dumps(chart.figure))["layout"]
        low, high = layout["yaxis"]["range"]
        plot_px = layout["height"] - layout["margin"]["t"] - layout["margin"]["b"]
        for note in layout["annotations"]:
            if note["showarrow"]:
                assert (high - note["ay"]) / (high - low) * plot_px >= 9, note["text"]  # half a line of 12 px


def test_colours_are_distinct_and_the_baseline_is_neutral() -> None:
    chosen = shades(DATA.candidates)
    assert chosen[sample.BASE.id] == BASELINE
    assert len({shade.light for shade in chosen.values()}) == len(DATA.candidates)
    assert len({shade.dark for shade in chosen.values()}) == len(DATA.candidates)


@given(st.lists(st.floats(-1000, 1000), max_size=12), st.floats(0.1, 100))
def test_labels_never_overlap_and_keep_their_order(places: list[float], gap: float) -> None:
    moved = spread_out(places, gap)
    order = sorted(range(len(places)), key=lambda i: places[i])
    spaced = [moved[i] for i in order]
    assert all(b - a >= gap * 0.999 for a, b in pairwise(spaced))


def test_labels_with_room_stay_where_they_are() -> None:
    assert spread_out([1.0, 5.0, 9.0], 2.0) == [1.0, 5.0, 9.0]


def test_long_labels_are_cut_and_escaped() -> None:
    assert escaped("<b>" + "x" * 90, 10) == "&lt;b&gt;xxxxxx…"
