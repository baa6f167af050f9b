from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.bench_run import FORMAT, BenchRun
from spectune.domain.errors import InputError
from spectune.domain.estimate import Estimate
from spectune.domain.measurement import Outcome, Slo
from spectune.domain.metrics import MetricName
from spectune.domain.workload import Arrival, Sampling
from spectune.report.bench_file import dump_run, parse_run
from tests.support.bench_runs import BUSY, cell, rate, run

RUNS = {
    "bare": run(),
    "with records": run(keep_records=True),
    "nothing measured": replace(run(), cells=()),
    "open loop": run(cell(level=rate(2.5, Arrival.GAMMA, 4.0), goodput=1.0, doubts=[BUSY]), slo=Slo(0.5, None)),
    "unknown server": run(engine="", engine_version="", method=None, depth=None),
    "other sampling": run(cell(sampling=Sampling(0.7, 0.9, None, True, {"top_k": 5, "grammar": "x"}), accepted=None)),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_reads_back_as_the_same_values(name: str) -> None:
    text = dump_run(RUNS[name])
    assert parse_run(text.encode(), "run.json") == RUNS[name]
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_every_number_reads_back(value: float, low: float, high: float) -> None:
    one = cell(prompts=1)
    odd = replace(one.measurement, metrics={MetricName.TTFT: Estimate(value, low, high, 1)})
    saved = run(replace(one, measurement=odd))
    assert parse_run(dump_run(saved).encode(), "run.json") == saved


def test_secrets_in_what_a_server_answered_are_not_kept() -> None:
    one = cell(prompts=1)
    failed = replace(one.records[0], outcome=Outcome.HTTP_ERROR, detail="HTTP 401: Bearer abc123def456 is no key")
    text = dump_run(run(replace(one, records=(failed,)), keep_records=True))
    assert "HTTP 401" in text
    assert "abc123def456" not in text


def changed(**changes: Any) -> bytes:
    return json.dumps({**json.loads(dump_run(run())), **changes}).encode()


def nested() -> bytes:
    document = json.loads(dump_run(run()))
    document["cells"][0]["metrics"]["ttft_s"]["median"] = 1
    return json.dumps(document).encode()


WRONG = {
    "no JSON": (b"{", "not JSON"),
    "not text": (b"\xff\xfe\x00", "not JSON"),
    "a list": (b"[]", "not a saved run"),
    "null": (b"null", "not a saved run"),
    "something else": (b'{"format": 1}', "not a saved run"),
    "of a later spectune": (changed(format=FORMAT + 1), "form 2"),
    "a format that is none": (changed(format="1"), "not a saved run"),
    "an unknown key": (changed(speed=1), "speed"),
    "an unknown key inside": (nested(), "cells.0.metrics.ttft_s.median"),
    "a wrong value": (changed(seconds="long"), "seconds"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_saved_run_is_refused_by_name(case: str) -> None:
    text, words = WRONG[case]
    with pytest.raises(InputError, match=r"^x\.json: ") as caught:
        parse_run(text, "x.json")
    assert words in caught.value.message
    assert caught.value.advice


@given(st.binary(max_size=60))
def test_anything_else_is_refused_too(text: bytes) -> None:
    with pytest.raises(InputError):
        parse_run(text, "x.json")


def test_a_run_without_records_can_be_read_by_people() -> None:
    assert dump_run(RUNS["bare"]).count("\n") > 50
    found: BenchRun = parse_run(dump_run(RUNS["bare"]).encode(), "x")
    assert not math.isfinite(found.cells[0].metrics[MetricName.TTFT_P99].high)
