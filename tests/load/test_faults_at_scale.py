"""Thousands of requests, with faults of every kind among them."""

from __future__ import annotations

import time
from collections import Counter
from itertools import count, islice

from spectune.assemble.clock import SystemClock
from spectune.domain.measurement import Outcome, Phase
from spectune.domain.ports import Limits, Target
from spectune.domain.workload import Cell, Level, Message, Prompt, Sampling
from spectune.load.exchange import Timeouts
from spectune.load.generator import HttpLoad
from tests.load.conftest import StartMock

REQUESTS = 5000
FAULTS = {
    "-": Outcome.OK,
    "http500": Outcome.HTTP_ERROR,
    "reset": Outcome.RESET,
    "eof": Outcome.TRUNCATED,
    "error": Outcome.STREAM_ERROR,
    "stall": Outcome.TIMEOUT_IDLE,
}


def test_every_fault_is_told_and_none_hangs_or_is_a_success(start_mock: StartMock) -> None:
    kinds = [kind for kind in FAULTS if kind != "-"]
    mock = start_mock("--ttft-spread-ms", "4", "--seed", "11", *(f"--fault={kind}:20" for kind in kinds))
    prompts = (Prompt(f"p{n}", "a", (Message("user", f"question {n}"),), 12) for n in count())
    load = HttpLoad(SystemClock(), lambda: 0.0, 2, Timeouts(idle_s=1.0))
    began = time.monotonic()
    found = load.measure(
        Target(mock.url, "mock", lambda: None, {}),
        Cell(Level(64), Sampling()),
        islice(prompts, REQUESTS),
        Limits(60.0, 1e-9),
        lambda text: None,
    )
    assert time.monotonic() - began < 50
    assert found.measurement.stopped == "prompts ran out"
    assert len({r.prompt_id for r in found.records}) == len(found.records) == REQUESTS

    truth = Counter(FAULTS[row["fault"]] for row in mock.log() if row["fault"] != "gone")
    told = Counter(r.outcome for r in found.records)
    # What is cancelled at the end was on its way, and the server may have been done with it or not.
    cancelled = told.pop(Outcome.CANCELLED, 0)
    assert cancelled <= 64
    assert set(told) == set(FAULTS.values())
    for outcome, times in told.items():
        assert truth[outcome] - cancelled <= times <= truth[outcome]
        if outcome is not Outcome.OK:
            assert 60 < times < 140
    failed = [r for r in found.records if r.outcome not in {Outcome.OK, Outcome.CANCELLED}]
    assert all(r.detail for r in failed)
    whole = [r for r in found.records if r.outcome is Outcome.OK and r.phase is not Phase.WARMUP]
    assert {r.output_tokens for r in whole} == {12}
    assert "failed-requests" in {doubt.name for doubt in found.measurement.doubts}
