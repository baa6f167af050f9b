"""The page of metrics: `python -m spectune.cli.metrics_page > docs/metrics.md`."""

from __future__ import annotations

import sys

from spectune.domain.metrics import METRICS

_HEAD = """\
# Metrics

Each quantity has one name, one unit and one formula; this page is made from them. Only requests of the steady window
count: those sent while it was open, and served. Intervals are at 95 %: of a mean by Student's t, of a ratio by the
delta method (both widened for correlation in time), of a median or p99 by order statistics.

| name | what | unit | formula | better |
| --- | --- | --- | --- | --- |
"""

_BETTER = {True: "larger", False: "smaller", None: "explains, never ranks"}


def page() -> str:
    """The whole page."""
    rows = (
        f"| `{m.name}` | {m.title} | {m.unit} | {m.formula} | {_BETTER[m.larger_is_better]} |" for m in METRICS.values()
    )
    return _HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
