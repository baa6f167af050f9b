"""From a campaign's history to a report: data first (pure), then terminal, HTML, Markdown, JSON or CSV."""

from spectune.report.data import build
from spectune.report.html import render_html
from spectune.report.markdown import render_markdown
from spectune.report.model import ReportData
from spectune.report.tabular import render_csv, render_json
from spectune.report.terminal import terminal_report

__all__ = [
    "ReportData",
    "build",
    "render_csv",
    "render_html",
    "render_json",
    "render_markdown",
    "terminal_report",
]
