"""The report for other programs: JSON with everything, CSV with one line a trial, cell and kind of text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache

from pydantic import TypeAdapter

from spectune.domain.metrics import METRICS, MetricName
from spectune.report.model import MeasuredRow, ReportData, TrialData

COLUMNS = (MetricName.PER_USER_SPEED, MetricName.AGGREGATE_SPEED, MetricName.TTFT, MetricName.TPOT, MetricName.LATENCY)
"""Metrics of the CSV form, each with its interval."""

_HEAD = ("campaign", "trial", "attempt", "purpose", "candidate_id", "candidate", "state", "decision", "started_at_utc")
_CELL = ("cell", "level [users or req/s]", "level_kind", "temperature", "domain")
_TAIL = (
    "ttft_p50 [s]",
    "accept_length [tokens/step]",
    "drafted_accepted [share]",
    "drafts",
    "drafted [tokens]",
    "accepted [tokens]",
    "requests_ok",
    "requests_failed",
    "window [s]",
    "load_average_start",
    "load_average_end",
    "stopped",
    "doubts",
    "marks",
)


def render_json(data: ReportData) -> str:
    """The report data as it stands, indented; `schema_version` tells the form."""
    return _adapter().dump_json(data, indent=2).decode() + "\n"


def read_json(text: str | bytes) -> ReportData:
    """Report data from its JSON form.

    Raises:
        pydantic.ValidationError: when the text is not of this form.
    """
    return _adapter().validate_json(text)


def json_schema() -> dict[str, object]:
    """The JSON Schema of what `render_json` writes."""
    return _adapter().json_schema(mode="serialization")


@cache
def _adapter() -> TypeAdapter[ReportData]:
    return TypeAdapter(ReportData)


def render_csv(data: ReportData) -> str:
    """One line a trial, cell and domain ("all" for all), units in the headings; trials without measurements have none.

    Text that a spreadsheet would take for a formula is preceded by an apostrophe.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, [*_HEAD, *_CELL, *_metric_headings(), *_TAIL], lineterminator="\n")
    writer.writeheader()
    for trial in data.trials:
        for row in trial.rows:
            writer.writerow({key: _safe(value) for key, value in _line(data, trial, row).items()})
    return out.getvalue()


def _metric_headings() -> Iterator[str]:
    for name in COLUMNS:
        title, unit = METRICS[name].title.replace(" ", "_"), METRICS[name].unit
        yield from (f"{title} [{unit}]", f"{title}_low [{unit}]", f"{title}_high [{unit}]", f"{title}_n")


def _line(data: ReportData, trial: TrialData, row: MeasuredRow) -> Mapping[str, object]:
    cell = data.cell(row.cell)
    drafts = row.acceptance
    head = (
        data.campaign,
        trial.number,
        trial.attempt,
        trial.purpose.value,
        trial.candidate,
        trial.label,
        trial.state.value,
        trial.decision.value if trial.decision else None,
        datetime.fromtimestamp(trial.started_at, UTC).isoformat(timespec="seconds"),
    )
    where = (cell.key, cell.level, cell.level_kind.value, cell.temperature, row.domain or "all")
    tail = (
        row.ttft_p50_s,
        drafts.length if drafts else None,
        drafts.rate if drafts else None,
        drafts.drafts if drafts else None,
        drafts.drafted if drafts else None,
        drafts.accepted if drafts else None,
        row.requests_ok,
        row.requests_failed,
        row.window_s,
        *row.load_average,
        row.stopped,
        " ".join(entry.doubt.name for entry in trial.doubts if entry.cell == row.cell),
        " ".join([*data.marks, trial.invalid_output]).strip(),
    )
    values = (*head, *where, *_metric_values(row), *tail)
    return dict(zip((*_HEAD, *_CELL, *_metric_headings(), *_TAIL), values, strict=True))


def _metric_values(row: MeasuredRow) -> Iterator[float | None]:
    for name in COLUMNS:
        found = row.metrics.get(name)
        yield from (found.value, found.low, found.high, found.n) if found else (None,) * 4


def _safe(value: object) -> object:
    """Numbers as they are, None as nothing, text that no spreadsheet takes for a formula."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return "'" + value
    return "" if value is None else value
