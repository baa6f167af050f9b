"""Running and waiting requests, from pages of each engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.deployment import Page
from spectune.domain.drain import Busy
from spectune.engines.busy import LOADS, METRICS, PAGES, SLOTS, busy

CASES = Path(__file__).parents[1] / "cases"


def loads(*rows: tuple[object, object]) -> str:
    told = [{"dp_rank": i, "num_running_reqs": r, "num_waiting_reqs": w} for i, (r, w) in enumerate(rows)]
    return json.dumps({"version": "0.5.15", "loads": told})


def slots(*works: object) -> str:
    return json.dumps([{"id": i, "n_ctx": 2048, "is_processing": work} for i, work in enumerate(works)])


SGLANG = """\
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 3.0
sglang:num_running_reqs{dp_rank="0",tp_rank="1"} 3.0
sglang:num_running_reqs{dp_rank="1",tp_rank="0"} 2.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{dp_rank="0",tp_rank="0"} 4.0
# TYPE sglang:num_grammar_queue_reqs gauge
sglang:num_grammar_queue_reqs{dp_rank="0",tp_rank="0"} 1.0
"""
VLLM = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 7.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 2.0
"""
LLAMA = """\
# HELP llamacpp:requests_processing Number of requests processing.
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 2
# HELP llamacpp:requests_deferred Number of requests deferred.
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 5
"""


@pytest.mark.parametrize(
    ("path", "body", "found"),
    [
        (LOADS, loads((3, 0)), (3, 0)),
        (LOADS, loads((3, 1), (2, 4)), (5, 5)),
        (LOADS, loads((3, None)), None),
        (LOADS, loads((True, 0)), None),
        (LOADS, loads(), None),
        (METRICS, SGLANG, (5, 5)),
        (METRICS, VLLM, (8, 2)),
        (METRICS, LLAMA, (2, 5)),
        (METRICS, "# nothing here\n", None),
        (METRICS, "llamacpp:requests_processing NaN\n", None),
        (SLOTS, slots(True, False, True), (2, 0)),
        (SLOTS, slots(False), (0, 0)),
        (SLOTS, slots("yes"), None),
        (SLOTS, "[]", None),
    ],
)
def test_pages(path: str, body: str, found: tuple[int, int] | None) -> None:
    assert busy({path: Page(200, body)}) == (None if found is None else Busy(*found, path))


def test_the_first_page_that_tells_counts_and_broken_ones_do_not() -> None:
    pages = {METRICS: Page(501, LLAMA), SLOTS: Page(200, slots(True))}
    assert busy(pages) == Busy(1, 0, SLOTS)
    assert busy({METRICS: Page(0, ""), SLOTS: Page(401, "")}) is None


def test_a_recorded_page_of_llama_cpp() -> None:
    recorded = sorted(CASES.glob("llamacpp/**/*metrics*"))
    assert recorded
    for path in recorded:
        assert busy({METRICS: Page(200, path.read_text("utf-8"))}) == Busy(0, 0, METRICS), path


@given(st.sampled_from([LOADS, METRICS, SLOTS]), st.text() | st.sampled_from([SGLANG[:40], "{", "[" * 9000, "null"]))
def test_never_raises(path: str, body: str) -> None:
    found = busy({path: Page(200, body)})
    assert found is None or found.source == path


def test_every_engine_has_pages_that_are_read() -> None:
    assert set(PAGES) == {"sglang", "vllm", "llama.cpp"}
    assert {path for paths in PAGES.values() for path in paths} <= {LOADS, METRICS, SLOTS}


def test_in_words() -> None:
    assert Busy(1, 2, METRICS).words == "1 request runs and 2 wait (GET /metrics)"
    assert Busy(3, 1, LOADS).words == "3 requests run and 1 waits (GET /v1/loads)"
