"""The open loop on a server of known truth: requests leave when they are due, whatever the server does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count, islice

import numpy as np
import pytest

from spectune.assemble.clock import SystemClock
from spectune.domain.errors import EngineFailure, InputError
from spectune.domain.measurement import Outcome, Phase, RequestRecord, Slo
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Limits, Target
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Arrival, Cell, Level, LevelKind, Message, Prompt, Sampling
from spectune.load.exchange import Timeouts
from spectune.load.generator import HttpLoad
from spectune.load.options import Options
from tests.load.conftest import StartMock

QUICK = Timeouts(connect_s=2.0, first_byte_s=5.0, idle_s=0.5)


def prompts(max_tokens: int = 10, gap_s: float | None = None) -> Iterator[Prompt]:
    hello = (Message("user", "hi"),)
    return (Prompt(f"p{n}", "a", hello, max_tokens, due_s=gap_s and 100 + n * gap_s) for n in count())


def measure(
    url: str,
    rate: float,
    arrival: Arrival = Arrival.POISSON,
    *,
    seconds: float = 1.5,
    given: Iterator[Prompt] | None = None,
    options: Options | None = None,
    precision: float = 1e-9,
) -> MeasuredCell:
    load = HttpLoad(SystemClock(), lambda: 0.0, 2, QUICK, options)
    cell = Cell(Level(rate, LevelKind.RATE, arrival, 4.0), Sampling(temperature=0.0))
    target = Target(url, "mock", lambda: None, {})
    return load.measure(target, cell, given or prompts(), Limits(seconds, precision), lambda text: None)


def steady(found: MeasuredCell) -> list[RequestRecord]:
    return sorted((r for r in found.records if r.phase is Phase.STEADY), key=lambda r: r.due_ns)


def doubts(found: MeasuredCell) -> set[str]:
    return {doubt.name for doubt in found.measurement.doubts}


def test_requests_leave_when_they_are_due_whatever_is_in_flight(start_mock: StartMock) -> None:
    # Each takes 300 ms and one is due every 20 ms: 15 are in flight, though none waits for another.
    found = measure(start_mock("--ttft-ms", "200", "--tpot-ms", "11").url, 50.0, Arrival.CONSTANT)
    sent = steady(found)
    assert set(np.diff([r.due_ns for r in sent])) == {20_000_000}
    late = [r.lateness_s for r in sent if r.lateness_s is not None]
    assert len(late) == len(sent) > 60
    assert float(np.median(late)) < 0.002
    assert min(r.sent_ns - r.due_ns for r in sent) >= 0
    m = found.measurement
    assert m.in_flight == pytest.approx(15, rel=0.15)
    assert m.metrics[MetricName.TTFT_P50].value == pytest.approx(0.200, abs=0.01)
    assert m.metrics[MetricName.REQUEST_RATE].value == pytest.approx(50, rel=0.1)
    assert m.stopped == "time is up"
    assert "queue-grows" not in doubts(found)


def test_the_window_opens_when_half_are_answered_and_all_that_count_are_waited_for(start_mock: StartMock) -> None:
    found = measure(start_mock("--ttft-ms", "300").url, 100.0, Arrival.CONSTANT, seconds=2.4)
    warm_up = [r for r in found.records if r.phase is Phase.WARMUP]
    assert 0.5 < len(warm_up) / 100 < 0.9  # by the rule, after twice the time of an answer
    assert {r.outcome for r in steady(found)} == {Outcome.OK}
    assert {r.phase for r in found.records if r.outcome is Outcome.CANCELLED} == {Phase.DRAIN}


@pytest.mark.parametrize("arrival", [Arrival.POISSON, Arrival.GAMMA, Arrival.RAMP])
def test_arrivals_of_every_kind_are_the_same_for_every_server(start_mock: StartMock, arrival: Arrival) -> None:
    schedules = []
    for flags in ((), ("--ttft-ms", "50")):
        dues = sorted(r.due_ns for r in measure(start_mock(*flags).url, 80.0, arrival, seconds=0.8).records)
        schedules.append([due - dues[0] for due in dues[:20]])
    assert schedules[0] == schedules[1]


def test_a_ramp_counts_from_its_start(start_mock: StartMock) -> None:
    found = measure(start_mock().url, 200.0, Arrival.RAMP, seconds=1.0)
    assert not [r for r in found.records if r.phase is Phase.WARMUP]
    assert len(steady(found)) == pytest.approx(100, abs=35)


def test_a_trace_is_replayed_at_its_speed_and_ends_with_it(start_mock: StartMock) -> None:
    given = islice(prompts(gap_s=0.1), 30)
    found = measure(start_mock().url, 4.0, Arrival.TRACE, given=given, seconds=30.0)
    dues = sorted(r.due_ns for r in found.records)
    assert set(np.diff(dues)) == {25_000_000}
    assert (len(dues), found.measurement.stopped) == (30, "prompts ran out")


def test_prompts_without_times_are_no_trace(start_mock: StartMock) -> None:
    with pytest.raises(InputError, match="p0 has no arrival time"):
        measure(start_mock().url, 1.0, Arrival.TRACE)


def test_it_stops_when_it_is_precise_enough(start_mock: StartMock) -> None:
    began = time.monotonic()
    found = measure(start_mock("--tpot-ms", "4").url, 60.0, seconds=30.0, precision=0.2)
    assert found.measurement.stopped == "precise enough"
    assert time.monotonic() - began < 10


def test_a_server_that_cannot_keep_the_rate_ends_it_with_a_doubt(start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "3000")
    began = time.monotonic()
    found = measure(mock.url, 100.0, seconds=1.5, options=Options(most_in_flight=60))
    assert found.measurement.stopped == "the queue grows: 60 requests are in flight"
    (doubt,) = [doubt for doubt in found.measurement.doubts if doubt.name == "queue-grows"]
    assert "no more were sent" in doubt.message
    assert doubt.fatal == any(r.phase is Phase.STEADY and r.outcome is Outcome.CANCELLED for r in found.records)
    assert time.monotonic() - began < 6


def test_a_queue_that_grows_within_the_limit_is_doubted_too(start_mock: StartMock) -> None:
    # The server answers nothing before 1.6 s, so that up to then requests only pile up.
    found = measure(start_mock("--ttft-ms", "1600").url, 100.0, Arrival.CONSTANT, seconds=1.0)
    assert "queue-grows" in doubts(found)
    assert {r.outcome for r in steady(found)} == {Outcome.OK}


def test_latency_counts_from_the_due_time_and_a_late_client_is_doubted(start_mock: StartMock) -> None:
    def slow() -> Iterator[Prompt]:
        for n, prompt in enumerate(prompts()):
            if n and n % 20 == 0:
                time.sleep(0.06)  # the client is held up, and with it six requests
            yield prompt

    found = measure(start_mock("--ttft-ms", "20").url, 100.0, Arrival.CONSTANT, given=slow())
    late = max(steady(found), key=lambda r: r.lateness_s or 0)
    assert late.lateness_s
    assert late.lateness_s > 0.03
    assert late.ttft_s
    assert late.ttft_s >= late.lateness_s + 0.015
    assert "sent-late" in doubts(found)


def test_goodput_counts_what_met_its_bounds(start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "5", "--ttft-spread-ms", "100", "--tpot-ms", "1", "--fault", "http500:200")
    found = measure(mock.url, 100.0, options=Options(slo=Slo(ttft_s=0.055, tpot_s=0.01)))
    good = found.measurement.metrics[MetricName.GOODPUT].value
    assert good == pytest.approx(100 * 0.8 * 0.5, rel=0.3)
    assert good < found.measurement.metrics[MetricName.REQUEST_RATE].value


def test_a_server_that_is_gone_is_told(start_mock: StartMock) -> None:
    mock = start_mock()
    mock.stop()
    with pytest.raises(EngineFailure, match="stopped answering"):
        measure(mock.url, 200.0, seconds=60.0)
