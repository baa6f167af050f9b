"""How many requests a server works on, read from whichever of its pages tells.

SGLang: /v1/loads, which needs no flag, or the gauges of /metrics (--enable-metrics). vLLM: the gauges of /metrics.
llama.cpp: the gauges of /metrics (--metrics), or /slots, which knows running requests but not those that wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.samples import Sample

from spectune.domain.deployment import Page
from spectune.domain.drain import Busy
from spectune.engines.common.metrics import samples
from spectune.engines.common.pages import count, json_of

LOADS, METRICS, SLOTS = "/v1/loads", "/metrics", "/slots"
PAGES: Mapping[str, tuple[str, ...]] = {
    "sglang": (LOADS, METRICS),
    "vllm": (METRICS,),
    "llama.cpp": (METRICS, SLOTS),
}
"""Engine -> pages that may tell, the best first."""

_GAUGES = (
    ({"sglang:num_running_reqs"}, {"sglang:num_queue_reqs", "sglang:num_grammar_queue_reqs"}),
    ({"vllm:num_requests_running"}, {"vllm:num_requests_waiting"}),
    ({"llamacpp:requests_processing"}, {"llamacpp:requests_deferred"}),
)
_COPIES = ("dp_rank", "engine")
"""Labels that tell copies of the model apart; what differs in another label counts the same requests again."""


def busy(pages: Mapping[str, Page]) -> Busy | None:
    """What the first page that tells it says; None where none does. Never raises on any text."""
    readers = {LOADS: _loads, METRICS: _metrics, SLOTS: _slots}
    for path, page in pages.items():
        counts = readers[path](page) if path in readers else None
        if counts is not None:
            return Busy(*counts, path)
    return None


def _loads(page: Page) -> tuple[int, int] | None:
    body = json_of(page)
    rows = body.get("loads") if isinstance(body, dict) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        return None
    running = [count(row.get("num_running_reqs")) for row in rows]
    waiting = [count(row.get("num_waiting_reqs")) for row in rows]
    told = [number for number in (*running, *waiting) if number is not None]
    if len(told) != 2 * len(rows):
        return None
    return sum(told[: len(rows)]), sum(told[len(rows) :])


def _slots(page: Page) -> tuple[int, int] | None:
    slots = json_of(page)
    if not isinstance(slots, list) or not slots:
        return None
    works = [slot.get("is_processing") if isinstance(slot, dict) else None for slot in slots]
    return (sum(map(bool, works)), 0) if all(isinstance(one, bool) for one in works) else None


def _metrics(page: Page) -> tuple[int, int] | None:
    gauges = samples(page)
    for running, waiting in _GAUGES:
        found = _sum(gauges, running)
        if found is not None:
            return found, _sum(gauges, waiting) or 0
    return None


def _sum(gauges: Iterable[Sample], names: set[str]) -> int | None:
    """Of some gauges over all copies of the model."""
    most: dict[tuple[str, ...], int] = {}
    for sample in gauges:
        if sample.name in names and sample.value >= 0:
            key = (sample.name, *(sample.labels.get(label, "") for label in _COPIES))
            most[key] = max(most.get(key, 0), int(sample.value))
    return sum(most.values()) if most else None
