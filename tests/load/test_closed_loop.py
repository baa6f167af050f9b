"""The closed loop on a server of known truth: who counts, how many are in flight, when it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from statistics import median

import pytest

from spectune.assemble.clock import SystemClock
from spectune.domain.deployment import Counters
from spectune.domain.errors import EngineFailure, FailureKind, InputError
from spectune.domain.measurement import Outcome, Phase
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Limits, Target
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Cell, Level, Message, Prompt, Sampling
from spectune.load.body import Api
from spectune.load.exchange import Timeouts
from spectune.load.generator import HttpLoad
from spectune.load.options import Options
from tests.load.conftest import Mock, StartMock

QUICK = Timeouts(connect_s=2.0, first_byte_s=2.0, idle_s=0.5)


def prompts(max_tokens: int = 20) -> Iterator[Prompt]:
    return (Prompt(f"p{n}", "ab"[n % 2], (Message("user", f"question {n}"),), max_tokens) for n in count())


def target(url: str, **fields: object) -> Target:
    return Target(url, "mock", lambda: None, {}, **fields)  # type: ignore[arg-type]


def measure(
    mock: Mock, users: int, seconds: float = 1.0, given: Iterator[Prompt] | None = None, precision: float = 0.0001
) -> MeasuredCell:
    load = HttpLoad(SystemClock(), lambda: 0.0, 2, QUICK)
    cell = Cell(Level(users), Sampling(temperature=0.0))
    return load.measure(target(mock.url), cell, given or prompts(), Limits(seconds, precision), lambda text: None)


@pytest.mark.parametrize("users", [1, 2, 7])
def test_exactly_so_many_are_in_flight_and_the_truth_is_found(start_mock: StartMock, users: int) -> None:
    mock = start_mock("--ttft-ms", "40", "--tpot-ms", "5")
    found = measure(mock, users, seconds=1.5)
    m = found.measurement
    assert m.in_flight == pytest.approx(users, rel=0.1)
    # Medians: one pause of a machine that has other things to do moves a mean of a dozen requests by more than this.
    assert m.metrics[MetricName.TTFT_P50].value == pytest.approx(0.040, abs=0.006)
    assert m.metrics[MetricName.TPOT_P50].value == pytest.approx(0.005, rel=0.06)
    speeds = [r.speed_tok_s for r in found.records if r.phase is Phase.STEADY and r.speed_tok_s]
    assert median(speeds) == pytest.approx(200, rel=0.06)
    assert m.metrics[MetricName.PER_USER_SPEED].value == pytest.approx(200, rel=0.15)
    assert m.metrics[MetricName.AGGREGATE_SPEED].value == pytest.approx(users * 20 / 0.135, rel=0.25)
    assert set(m.by_domain) == {"a", "b"}


def test_the_ramp_does_not_count_and_is_out_of_step(start_mock: StartMock) -> None:
    found = measure(start_mock("--ttft-ms", "20", "--tpot-ms", "4"), users=4)
    ramp = [r for r in found.records if r.phase is Phase.WARMUP]
    assert {r.output_tokens for r in ramp} >= {5, 10, 15, 20}
    assert all(r.phase is not Phase.WARMUP for r in found.records if r.output_tokens == 20 and r not in ramp)


def test_long_requests_are_waited_for_under_full_load(start_mock: StartMock) -> None:
    # One request in four takes four times as long; a window that dropped what it does not finish would lose them.
    given = (Prompt(f"p{n}", "a", (Message("user", f"q {n}"),), 80 if n % 4 == 0 else 20) for n in count())
    found = measure(start_mock("--ttft-ms", "5", "--tpot-ms", "5"), users=4, seconds=0.8, given=given)
    steady = [r for r in found.records if r.phase is Phase.STEADY]
    assert all(r.outcome is Outcome.OK for r in steady)
    last_sent = max(r.sent_ns for r in steady)
    assert any(r.output_tokens == 80 and r.end_ns > last_sent for r in steady)
    cancelled = [r for r in found.records if r.outcome is Outcome.CANCELLED]
    assert all(r.phase is Phase.DRAIN for r in cancelled)


def test_it_stops_when_it_is_precise_enough(start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "5", "--tpot-ms", "5")
    began = time.monotonic()
    found = measure(mock, users=1, seconds=30.0, precision=0.2)
    assert found.measurement.stopped == "precise enough"
    assert time.monotonic() - began < 10


def test_it_ends_when_prompts_run_out(start_mock: StartMock) -> None:
    found = measure(start_mock(), users=2, seconds=30.0, given=islice(prompts(), 6))
    assert found.measurement.stopped == "prompts ran out"
    assert len(found.records) == 6


def test_no_prompt_is_sent_twice(start_mock: StartMock) -> None:
    found = measure(start_mock("--ttft-ms", "1", "--tpot-ms", "1"), users=5)
    ids = [r.prompt_id for r in found.records]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("cycle", ["1", "4", "1,2,3,4"])
def test_tokens_are_not_chunks(start_mock: StartMock, cycle: str) -> None:
    mock = start_mock("--ttft-ms", "10", "--tpot-ms", "8", "--tokens-per-chunk", cycle)
    found = measure(mock, users=2, given=prompts(24))
    steady = [r for r in found.records if r.phase is Phase.STEADY]
    assert {r.output_tokens for r in steady} == {24}
    mean_per_chunk = sum(map(int, cycle.split(","))) / len(cycle.split(","))
    assert steady[0].chunks == pytest.approx(24 / mean_per_chunk, abs=1.5)


def test_without_usage_the_measurement_says_that_it_knows_nothing(start_mock: StartMock) -> None:
    m = measure(start_mock("--usage", "never"), users=1, seconds=0.3).measurement
    assert MetricName.PER_USER_SPEED not in m.metrics
    assert any(doubt.name == "tokens-unknown" and doubt.fatal for doubt in m.doubts)


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ("http500", Outcome.HTTP_ERROR),
        ("reset", Outcome.RESET),
        ("eof", Outcome.TRUNCATED),
        ("error", Outcome.STREAM_ERROR),
        ("stall", Outcome.TIMEOUT_IDLE),
    ],
)
def test_faults_are_named_and_never_successes(start_mock: StartMock, fault: str, outcome: Outcome) -> None:
    mock = start_mock("--ttft-ms", "2", "--tpot-ms", "1", "--fault", f"{fault}:200", "--seed", "3")
    found = measure(mock, users=4, seconds=1.5)
    bad = [r for r in found.records if r.outcome not in {Outcome.OK, Outcome.CANCELLED}]
    assert {r.outcome for r in bad} == {outcome}
    assert any(doubt.name == "failed-requests" for doubt in found.measurement.doubts)
    log = mock.log()
    sent_bad = sum(row["fault"] != "-" for row in log)
    assert len(bad) <= sent_bad <= len(bad) + 4  # a fault may also hit a filler that was cancelled


def test_a_server_that_is_gone_is_told_at_once(start_mock: StartMock) -> None:
    mock = start_mock()
    mock.stop()
    began = time.monotonic()
    with pytest.raises(EngineFailure, match="stopped answering") as caught:
        measure(mock, users=2, seconds=60.0)
    assert caught.value.kind is FailureKind.DIED_MEASURING
    assert time.monotonic() - began < 10


def test_only_failures_is_a_fatal_doubt(start_mock: StartMock) -> None:
    m = measure(start_mock("--fault", "http500:1000"), users=1, seconds=0.3).measurement
    assert [doubt.name for doubt in m.doubts if doubt.fatal] == ["nothing-measured"]
    assert m.metrics.keys().isdisjoint({MetricName.PER_USER_SPEED, MetricName.TTFT})


def test_counters_are_read_when_cancelled_requests_are_accounted_for(start_mock: StartMock) -> None:
    readings = iter([0, 500, 520, 540, 540, 999])
    read: list[int] = []

    def counters() -> Counters:
        read.append(next(readings))
        return Counters(output_tokens=read[-1])

    load = HttpLoad(SystemClock(), lambda: 0.0, 2, QUICK)
    counted = replace(target(start_mock().url), counters=counters)
    m = load.measure(counted, Cell(Level(1), Sampling()), prompts(), Limits(0.2, 0.0001), lambda text: None).measurement
    assert (m.counters_before, m.counters_after) == (Counters(output_tokens=0), Counters(output_tokens=540))


def test_answers_come_in_the_order_of_the_prompts(start_mock: StartMock) -> None:
    load = HttpLoad(SystemClock(), lambda: 0.0, 2, QUICK)
    asked = list(islice(prompts(), 9))
    answers = load.ask(target(start_mock().url), asked, concurrency=3)
    assert [answer.prompt_id for answer in answers] == [prompt.id for prompt in asked]
    assert all(answer.text and not answer.error for answer in answers)


def test_a_failed_answer_carries_its_error(start_mock: StartMock) -> None:
    load = HttpLoad(SystemClock(), lambda: 0.0, 2, QUICK)
    (answer,) = load.ask(target(start_mock("--fault", "http500:1000").url), islice(prompts(), 1), concurrency=1)
    assert answer.error.startswith("http-error: HTTP 500")


def test_servers_that_close_connections_get_a_new_one_each_time(start_mock: StartMock) -> None:
    mock = start_mock("--ttft-ms", "1", "--tpot-ms", "1")
    load = HttpLoad(SystemClock(), lambda: 0.0, 2, QUICK)
    cell = Cell(Level(2), Sampling())
    found = load.measure(target(mock.url, keep_alive=False), cell, prompts(), Limits(0.5, 0.0001), lambda text: None)
    assert found.measurement.requests[Outcome.OK] > 10
    assert set(found.measurement.requests) <= {Outcome.OK, Outcome.CANCELLED}


def test_without_usage_token_ids_or_a_tokenizer_tell_tokens(start_mock: StartMock) -> None:
    mock = start_mock("--usage", "never", "--tokens-per-chunk", "3")
    ids = Options(timeouts=QUICK)
    words = Options(timeouts=QUICK, tokenizer=lambda text: len(text.split()))
    for options, extra, source in ((ids, {"return_token_ids": True}, "token-ids"), (words, {}, "tokenizer")):
        load = HttpLoad(SystemClock(), lambda: 0.0, 2, options=options)
        cell = Cell(Level(1), Sampling(extra=extra))
        found = load.measure(target(mock.url), cell, prompts(14), Limits(0.3, 0.0001), lambda text: None)
        assert {(r.output_tokens, r.token_source.value) for r in found.records if r.phase is Phase.STEADY} == {
            (14, source)
        }
        names = {doubt.name for doubt in found.measurement.doubts}
        assert ("tokens-counted-again" in names) == (source == "tokenizer")
        assert "tokens-unknown" not in names


def test_completions_are_measured_like_chats(start_mock: StartMock) -> None:
    load = HttpLoad(SystemClock(), lambda: 0.0, 2, options=Options(timeouts=QUICK, api=Api.COMPLETIONS))
    found = load.measure(
        target(start_mock().url), Cell(Level(2), Sampling()), prompts(), Limits(0.3, 0.0001), lambda text: None
    )
    steady = [r for r in found.records if r.phase is Phase.STEADY]
    assert {(r.outcome, r.output_tokens, r.prompt_tokens) for r in steady} == {(Outcome.OK, 20, 2)}


def test_more_users_than_open_files_are_refused_ahead() -> None:
    load = HttpLoad(SystemClock(), lambda: 0.0, 2, QUICK)
    cell = Cell(Level(10_000_000), Sampling())
    with pytest.raises(InputError, match="open files"):
        load.measure(target("http://127.0.0.1:1"), cell, prompts(), Limits(1, 0.1), lambda text: None)


def test_a_url_that_is_none_is_wrong_input() -> None:
    load = HttpLoad(SystemClock(), lambda: 0.0, 2, QUICK)
    with pytest.raises(InputError, match="ftp"):
        load.measure(target("ftp://host"), Cell(Level(1), Sampling()), prompts(), Limits(1, 0.1), lambda text: None)
