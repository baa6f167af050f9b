"""A load test for other programs and for documents: CSV with one line a cell and kind of text, Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from spectune.domain.bench_run import BenchRun
from spectune.domain.estimate import Estimate
from spectune.domain.measurement import Acceptance, Measurement, Outcome
from spectune.domain.metrics import METRICS, MetricName
from spectune.report import bench_words as say
from spectune.report import words

_HEAD = (
    "started_at_utc", "url", "model", "engine", "engine_version", "workload", "cell", "level [users or req/s]",
    "level_kind", "arrival", "temperature", "fixed_length", "domain",
)  # fmt: skip
_TAIL = (
    "accept_length [tokens/step]", "drafted_accepted [share]", "drafts", "drafted [tokens]", "accepted [tokens]",
    "requests_ok", "requests_failed", "in_flight", "window [s]", "stopped", "doubts",
)  # fmt: skip
_METRICS = tuple(name for name in METRICS if name is not MetricName.ACCEPT_LENGTH)


def render_bench_csv(run: BenchRun) -> str:
    """One line a cell and domain ("all" for all), units in the headings; every metric with its interval.

    Text that a spreadsheet would take for a formula is preceded by an apostrophe.
    """
    out = io.StringIO()
    columns = (*_HEAD, *_metric_headings(), *_TAIL)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for cell in run.cells:
        writer.writerow(map(_safe, _line(run, cell, "all", cell.metrics, cell.acceptance)))
        if len(cell.by_domain) > 1:
            for domain, metrics in cell.by_domain.items():
                writer.writerow(map(_safe, _line(run, cell, domain, metrics, cell.acceptance_by_domain.get(domain))))
    return out.getvalue()


def render_bench_markdown(run: BenchRun) -> str:
    """A heading, the table, and the doubts."""
    goodput = any(MetricName.GOODPUT in m.metrics for m in run.cells)
    heads = [
        "level", "per user (tok/s)", "in all (tok/s)", "TTFT p50, p99 (ms)", "TPOT p50, p99 (ms)", "tokens a step",
        *(["goodput (req/s)"] if goodput else []), "requests",
    ]  # fmt: skip
    engine = " ".join(filter(None, (run.engine, run.engine_version))) or "unknown engine"
    about = (
        f"{_escape(engine)} at {_escape(run.url)}, {words.moment(run.started_unix)}; workload "
        f"{_escape(run.workload.name)}; half-widths of 95 % intervals."
    )
    lines = [
        f"## Load test of {_escape(run.model)}",
        "",
        about,
        "",
        _row(heads),
        _row(["---", *(["---:"] * (len(heads) - 1))]),
    ]
    for m in run.cells:
        values = [
            say.label(m.cell),
            say.speed(m.metrics.get(MetricName.PER_USER_SPEED)),
            say.speed(m.metrics.get(MetricName.AGGREGATE_SPEED)),
            say.milliseconds(m, MetricName.TTFT_P50, MetricName.TTFT_P99),
            say.milliseconds(m, MetricName.TPOT_P50, MetricName.TPOT_P99),
            say.accept_length(m),
            *([say.speed(m.metrics.get(MetricName.GOODPUT))] if goodput else []),
            say.requests(m),
        ]
        lines.append(_row([_escape(value) for value in values]))
    doubts = [f"- {say.label(m.cell)}: {d.message}. {d.advice}" for m in run.cells for d in m.doubts]
    if doubts:
        lines += ["", "Doubts:", "", *(_escape(doubt) for doubt in doubts)]
    return "\n".join(lines) + "\n"


def _metric_headings() -> Iterator[str]:
    for name in _METRICS:
        title, unit = METRICS[name].title.replace(",", "").replace(" ", "_"), METRICS[name].unit
        yield from (f"{title} [{unit}]", f"{title}_low [{unit}]", f"{title}_high [{unit}]", f"{title}_n")


def _line(
    run: BenchRun,
    m: Measurement,
    domain: str,
    metrics: Mapping[MetricName, Estimate],
    drafts: Acceptance | None,
) -> Iterator[object]:
    level, sampling, whole = m.cell.level, m.cell.sampling, domain == "all"
    yield datetime.fromtimestamp(m.started_unix, UTC).isoformat(timespec="seconds")
    yield from (run.url, run.model, run.engine, run.engine_version, run.workload.name, m.cell.key, level.value)
    yield from (level.kind.value, level.arrival.value if level.kind.value == "rate" else None)
    yield from (sampling.temperature, sampling.ignore_eos, domain)
    for name in _METRICS:
        found = metrics.get(name)
        yield from (found.value, found.low, found.high, found.n) if found else (None,) * 4
    yield from (drafts.length, drafts.rate, drafts.drafts, drafts.drafted, drafts.accepted) if drafts else (None,) * 5
    yield from (m.requests.get(Outcome.OK, 0), say.failures(m), m.in_flight) if whole else (None,) * 3
    yield from (m.window_s, m.stopped, " ".join(doubt.name for doubt in m.doubts))


def _safe(value: object) -> object:
    """Numbers as they are, None as nothing, text that no spreadsheet takes for a formula."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return "'" + value
    return "" if value is None else value


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    for sign in ("\\", "|", "`", "*", "_", "<", ">", "[", "]"):
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")
