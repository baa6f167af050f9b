from __future__ import annotations

import csv
import io
import json

import pytest
from pydantic import ValidationError

from spectune.report.data import build
from spectune.report.model import SCHEMA_VERSION
from spectune.report.tabular import json_schema, read_json, render_csv, render_json
from tests.report import sample


@pytest.mark.parametrize("name", sorted(sample.HISTORIES))
def test_json_reads_back_as_the_same_data(name: str) -> None:
    data = build(sample.HISTORIES[name](), "c1")
    text = render_json(data)
    assert read_json(text) == data
    assert json.loads(text)["schema_version"] == SCHEMA_VERSION


def test_json_of_another_form_is_refused() -> None:
    with pytest.raises(ValidationError):
        read_json('{"schema_version": 1}')


def test_the_schema_names_every_part() -> None:
    properties = json_schema()["properties"]
    assert isinstance(properties, dict)
    assert {"answer", "trials", "frontier", "provenance", "schema_version"} <= properties.keys()


def test_csv_has_a_line_for_each_trial_cell_and_domain() -> None:
    data = build(sample.decided(), "c1")
    lines = list(csv.DictReader(io.StringIO(render_csv(data))))
    measured = [trial for trial in data.trials if trial.rows]
    assert len(lines) == len(measured) * 6 * 5
    first = lines[0]
    assert (first["trial"], first["cell"], first["domain"]) == ("1", "c1 T0", "all")
    row = data.trials[0].rows[0]
    assert float(first["per-user_speed [tok/s]"]) == row.metrics[next(iter(row.metrics))].value
    assert float(first["per-user_speed_low [tok/s]"]) < float(first["per-user_speed [tok/s]"])
    by_domain = next(line for line in lines if line["domain"] == "code_edit")
    assert by_domain["aggregate_speed [tok/s]"] == ""
    doubted = {(line["trial"], line["cell"]) for line in lines if line["doubts"]}
    assert doubted == {("6", "c4 T0"), ("6", "c4 T0.7")}


def test_csv_says_what_is_not_real() -> None:
    lines = csv.DictReader(io.StringIO(render_csv(build(sample.nothing_better(), "c1"))))
    assert all(line["marks"].startswith("Simulated:") for line in lines)


def test_csv_text_is_no_formula() -> None:
    text = render_csv(build(sample.hostile(), '=HYPERLINK("x")'))
    assert all(line["campaign"] == '\'=HYPERLINK("x")' for line in csv.DictReader(io.StringIO(text)))
