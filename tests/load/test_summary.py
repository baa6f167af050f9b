from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.domain.measurement import Outcome, Phase, RequestRecord, Slo
from spectune.domain.metrics import MetricName
from spectune.load import summary
from spectune.load.speeds import Speeds
from spectune.load.window import Window
from tests.load.records import record, recorded


def seconds(at: float) -> int:
    return int(1_000_000_000 + 1e9 * at)


def test_only_served_requests_of_the_steady_window_count() -> None:
    everything = [
        recorded(sent=3.0),
        recorded(sent=1.0),
        recorded(phase=Phase.WARMUP),
        recorded(phase=Phase.DRAIN),
        recorded(outcome=Outcome.TRUNCATED),
    ]
    assert [r.record.sent_ns for r in summary.steady(everything)] == [seconds(1.0), seconds(3.0)]


def test_per_user_speed_leaves_the_first_token_out() -> None:
    speed = summary.per_user_speed([record(tokens=11, decode=1.0), record(tokens=21, decode=1.0)])
    assert speed is not None
    assert speed.value == pytest.approx(15.0)


def test_the_speed_so_far_is_the_speed_of_the_summary_in_whatever_order_requests_end() -> None:
    records = [record(sent=n, tokens=11 + n % 5, decode=1 + 0.1 * (n % 7)) for n in range(40)]
    records += [record(tokens=None), record(tokens=1), record(tokens=5, decode=0.0)]
    speeds = Speeds()
    for r in sorted(records, key=lambda r: r.end_ns % 1_000_003):
        speeds.add(r)
    assert speeds.requests == 43
    assert speeds.estimate() == summary.per_user_speed(sorted(records, key=lambda r: r.sent_ns))
    assert Speeds().estimate() is None


def test_requests_without_a_known_count_or_of_one_token_have_no_speed() -> None:
    assert summary.per_user_speed([record(tokens=None), record(tokens=1), record(tokens=0)]) is None


def test_request_metrics_by_their_formulas() -> None:
    found = summary.request_metrics(
        [recorded(ttft=0.2, decode=2.0, tokens=21), recorded(ttft=0.4, decode=2.0, tokens=41)]
    )
    assert found[MetricName.TTFT].value == pytest.approx(0.3)
    assert found[MetricName.TPOT].value == pytest.approx((0.1 + 0.05) / 2)
    assert found[MetricName.LATENCY].value == pytest.approx(2.3)
    assert found[MetricName.PER_USER_SPEED].value == pytest.approx(60 / 4)
    assert found[MetricName.CHUNK_GAP].value == pytest.approx(0.2)


def test_aggregate_speed_counts_what_falls_into_the_window() -> None:
    # Two requests of 100 tokens in 100 chunks over 10 s; the window has the middle 5 s of both.
    requests = [recorded(chunks=100, sent=0.0, ttft=0.0, decode=10.0, tokens=100) for _ in range(2)]
    found = summary.window_metrics(requests, Window(seconds(2.5), seconds(7.5)))
    assert found[MetricName.AGGREGATE_SPEED].value == pytest.approx(20.0, rel=0.03)


def test_chunks_of_several_tokens_share_them() -> None:
    request = recorded(chunks=25, sent=0.0, ttft=0.0, decode=10.0, tokens=100)
    found = summary.window_metrics([request], Window(seconds(0.0), seconds(10.0)))
    assert found[MetricName.AGGREGATE_SPEED].value == pytest.approx(10.0)


def test_no_window_no_metrics() -> None:
    assert summary.window_metrics([recorded()], Window(5, 5)) == {}
    assert summary.mean_in_flight([record()], Window(5, 5)) == 0.0


def test_in_flight_is_a_mean_over_time() -> None:
    # One request covers the whole window, another half of it.
    records = [record(sent=0.0, ttft=0.0, decode=10.0), record(sent=0.0, ttft=0.0, decode=4.0)]
    assert summary.mean_in_flight(records, Window(seconds(2.0), seconds(6.0))) == pytest.approx(1.5)


def test_domains_are_summed_up_apart() -> None:
    kept = [recorded(domain="b", tokens=11), recorded(domain="a", tokens=21), recorded(domain="a", tokens=21)]
    by_domain = summary.split(kept, summary.request_metrics)
    assert list(by_domain) == ["a", "b"]
    assert by_domain["a"][MetricName.PER_USER_SPEED].value == pytest.approx(20)
    assert by_domain["a"][MetricName.PER_USER_SPEED].n == 2


def test_no_speed_is_below_zero_however_few_the_requests() -> None:
    found = summary.request_metrics([recorded(tokens=11), recorded(tokens=91)])
    assert found[MetricName.PER_USER_SPEED].low == 0.0
    assert all(estimate.low >= 0 for estimate in found.values())


def test_latencies_count_from_the_due_time() -> None:
    late = recorded(sent=1.0, ttft=0.2, decode=2.0)
    late = replace(late, record=replace(late.record, due_ns=seconds(0.5)))
    found = summary.request_metrics([late])
    assert found[MetricName.TTFT].value == pytest.approx(0.7)
    assert found[MetricName.LATENCY].value == pytest.approx(2.7)
    assert late.record.lateness_s == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("slo", "request_", "met"),
    [
        (Slo(), record(), True),
        (Slo(ttft_s=0.5), record(ttft=0.5), True),
        (Slo(ttft_s=0.5), record(ttft=0.51), False),
        (Slo(tpot_s=0.1), record(tokens=11, decode=1.0), True),
        (Slo(tpot_s=0.1), record(tokens=10, decode=1.0), False),
        (Slo(tpot_s=0.1), record(tokens=1), True),
        (Slo(tpot_s=0.1), record(tokens=None), False),
        (Slo(ttft_s=1.0), record(tokens=None), True),
        (Slo(), record(outcome=Outcome.TRUNCATED), False),
    ],
)
def test_what_is_good(slo: Slo, request_: RequestRecord, met: bool) -> None:
    assert slo.is_met(request_) is met


def test_goodput_is_of_requests_due_in_the_window_and_only_where_it_is_asked_for() -> None:
    good = [recorded(sent=0.5 + n, ttft=0.1) for n in range(8)]
    bad = [recorded(sent=0.6 + n, ttft=0.9) for n in range(8)]
    early = [recorded(sent=0.5, ttft=0.1, phase=Phase.WARMUP)]
    window = Window(seconds(0.0), seconds(10.0))
    found = summary.window_metrics([*good, *bad, *early], window, Slo(ttft_s=0.5))
    assert found[MetricName.GOODPUT].value == pytest.approx(0.8)
    assert MetricName.GOODPUT not in summary.window_metrics(good, window)
