from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from spectune.domain.deployment import Counters
from spectune.domain.estimate import Estimate
from spectune.domain.measurement import Outcome, Phase, TokenSource
from spectune.domain.metrics import MetricName
from spectune.domain.workload import Arrival, Cell, Level, LevelKind, Sampling
from spectune.load.doubts import doubts
from spectune.load.facts import Facts
from spectune.load.record import Recorded
from spectune.load.window import Window
from tests.load.records import recorded

KEPT = [recorded(sent=float(n), output_sha256=f"{n}", output_compression=0.5, prompt_id=f"p{n}") for n in range(20)]
FINE = Facts(
    cell=Cell(Level(1), Sampling(temperature=0.0)),
    kept=KEPT,
    everything=KEPT,
    metrics={MetricName.TTFT: Estimate(0.5, 0.4, 0.6, 20)},
    in_flight=1.0,
    before=Counters(output_tokens=100),
    after=Counters(output_tokens=100 + 20 * 11),
    lag_s=(0.0001, 0.004),
    client_cpu=0.05,
    cores=2,
    load_average=1.0,
    window=Window(1_000_000_000, 21_000_000_000),
)
OPEN = Cell(Level(3.0, LevelKind.RATE), Sampling())


def kept(**fields: object) -> list[Recorded]:
    return [recorded(**{"sent": float(n), "output_sha256": f"{n}", **fields}) for n in range(20)]  # type: ignore[arg-type]


def slowing(factor: float) -> list[Recorded]:
    """Twenty requests, the last third slower by a factor; neighbours differ a little."""
    return [
        recorded(sent=float(n), decode=(1 + 0.01 * (n % 3)) * (factor if n >= 14 else 1.0), output_sha256=f"{n}")
        for n in range(20)
    ]


def at_speeds(slowness: Sequence[float]) -> list[Recorded]:
    return [recorded(sent=float(n), decode=each, output_sha256=f"{n}") for n, each in enumerate(slowness)]


def recounted() -> list[Recorded]:
    return [replace(r, record=replace(r.record, token_source=TokenSource.TOKENIZER)) for r in KEPT]


def late(seconds: float) -> list[Recorded]:
    """All were due some time before they were sent."""
    return [replace(r, record=replace(r.record, due_ns=r.record.sent_ns - int(1e9 * seconds))) for r in KEPT]


def growing() -> list[Recorded]:
    """One more request is in flight with every second; all tokens as the server counts them."""
    return [recorded(sent=float(n), ttft=0.5, decode=30.0) for n in range(20)]


def failed(count: int, outcome: Outcome = Outcome.RESET) -> list[Recorded]:
    return [recorded(outcome=outcome, tokens=None, detail="connection reset") for _ in range(count)]


CASES = {
    "nothing-measured": {"kept": [], "everything": failed(3), "before": None},
    "tokens-unknown": {"kept": kept(tokens=None), "before": None},
    "failed-requests": {"everything": KEPT + failed(1)},
    "few-requests": {"kept": KEPT[:1]},
    "load-not-reached": {"in_flight": 0.85},
    "client-late": {"lag_s": (0.055, 0.06)},
    "client-blocked": {"lag_s": (1.0, 2.0), "metrics": {}},
    "client-busy": {"client_cpu": 0.8},
    "network-between": {"way_s": 0.1},
    "busy-host": {"load_average": 2.5},
    "prefix-cache-hit": {"kept": kept(prompt_tokens=100, cached_tokens=90)},
    "same-answers": {"kept": kept(output_sha256="same")},
    "looping-answers": {"kept": kept(output_compression=0.05)},
    "forced-length": {"cell": Cell(Level(1), Sampling(ignore_eos=True))},
    "tokens-differ-from-server": {"after": Counters(output_tokens=100 + 40 * 11)},
    "tokens-counted-again": {"kept": recounted()},
    "sent-late": {"cell": OPEN, "kept": late(0.011)},
    "queue-grows": {"cell": OPEN, "everything": growing()},
    "drift": {"kept": slowing(1.4)},
}


def names(facts: Facts) -> list[str]:
    return [doubt.name for doubt in doubts(facts)]


def test_a_clean_measurement_has_no_doubts() -> None:
    assert names(FINE) == []


@pytest.mark.parametrize("name", CASES)
def test_each_fault_is_doubted_by_its_name(name: str) -> None:
    found = doubts(replace(FINE, **CASES[name]))  # type: ignore[arg-type]
    assert [doubt.name for doubt in found] == [name]
    assert all(doubt.message and doubt.advice for doubt in found)
    assert found[0].fatal == (name in {"nothing-measured", "tokens-unknown"})


@pytest.mark.parametrize(
    "change",
    [
        {"kept": kept(prompt_tokens=100, cached_tokens=24)},
        {"everything": [*KEPT, recorded(outcome=Outcome.CANCELLED, tokens=None, chunks=5, phase=Phase.DRAIN)]},
        {"lag_s": (0.006, 0.04)},
        {"kept": slowing(1.05)},
        {"after": None},
        {"after": Counters()},
        {"load_average": 2.0},
        {"in_flight": 0.9},
        {"cell": OPEN, "in_flight": 0.2},
        {"cell": OPEN, "kept": late(0.009)},
        {"kept": late(0.1)},
        {"everything": growing()},
        {"cell": replace(OPEN, level=replace(OPEN.level, arrival=Arrival.RAMP)), "everything": growing()},
        {"kept": [replace(r, in_session=True) for r in kept(prompt_tokens=100, cached_tokens=90)]},
        {"in_flight": 0.4, "thinking": 0.55},
    ],
    ids=[
        "a shared system prompt",
        "a cancelled filler",
        "late, but TTFT is long",
        "a little drift",
        "no counters",
        "no token counter",
        "a load of one a core",
        "just enough in flight",
        "an open loop has no fixed number in flight",
        "late, but not by much",
        "a closed loop has no due times",
        "a closed loop has no queue of its own",
        "a ramp may well grow",
        "a session's beginning may be cached",
        "users who think",
    ],
)
def test_what_is_harmless_raises_no_doubt(change: dict[str, object]) -> None:
    assert names(replace(FINE, **change)) == []  # type: ignore[arg-type]


def test_a_machine_that_gets_slower_all_the_time_drifts_whatever_its_requests_have_in_common() -> None:
    """As under heat: within each third speeds fall too, and requests of one kind resemble each other."""
    slowness = [(1 + n / 60) * (1.0, 1.1, 0.9, 1.2)[n % 4] for n in range(60)]
    assert names(replace(FINE, kept=at_speeds(slowness))) == ["drift"]


def test_requests_that_differ_are_no_drift() -> None:
    rng = np.random.default_rng(7)
    alarms = sum(
        "drift" in names(replace(FINE, kept=at_speeds(list(np.exp(0.25 * rng.standard_normal(size))))))
        for size in (12, 20, 60)
        for _ in range(60)
    )
    assert alarms <= 3


def test_a_cancelled_request_may_go_on_on_the_server_for_an_answer() -> None:
    filler = recorded(outcome=Outcome.CANCELLED, tokens=None, phase=Phase.DRAIN, chunks=0)
    facts = replace(FINE, everything=[*KEPT, filler])
    for extra, doubted in ((11, False), (60, True)):
        after = Counters(output_tokens=100 + 20 * 11 + extra)
        assert ("tokens-differ-from-server" in names(replace(facts, after=after))) is doubted, extra


def test_tokens_of_cancelled_fillers_may_count_on_the_server_or_not() -> None:
    filler = recorded(outcome=Outcome.CANCELLED, tokens=None, phase=Phase.DRAIN, chunks=30)
    everything = [*KEPT, filler]
    for extra in (0, 15, 30):
        after = Counters(output_tokens=100 + 20 * 11 + extra)
        assert names(replace(FINE, everything=everything, after=after)) == []


@pytest.mark.parametrize(("cut_off", "fatal"), [(0, False), (7, True)])
def test_an_overflow_is_fatal_if_it_cut_off_what_counts(cut_off: int, fatal: bool) -> None:
    (doubt,) = doubts(replace(FINE, cell=OPEN, overflowed=True, cut_off=cut_off))
    assert (doubt.name, doubt.fatal) == ("queue-grows", fatal)
    assert str(cut_off) in doubt.message or not fatal


def test_prompts_of_a_recorded_length_are_forced_too() -> None:
    forced = [replace(r, forced=n < 5) for n, r in enumerate(KEPT)]
    (doubt,) = doubts(replace(FINE, kept=forced))
    assert (doubt.name, doubt.message.startswith("5 of 20")) == ("forced-length", True)


SHARP = {MetricName.TTFT: Estimate(0.050, 0.0499, 0.0501, 500), MetricName.TTFT_P99: Estimate(0.060, 0.055, 0.07, 500)}
WIDE = {MetricName.TTFT: Estimate(0.050, 0.046, 0.054, 10)}
SPEED = {MetricName.PER_USER_SPEED: Estimate(200.0, 199.0, 201.0, 500)}


@pytest.mark.parametrize(
    ("metrics", "lag_s", "moved"),
    [
        (SHARP, (0.0009, 0.03), None),
        (SHARP, (0.0011, 0.03), "TTFT by 2 %"),
        (WIDE, (0.0039, 0.03), None),
        (WIDE, (0.0041, 0.03), "TTFT by 8 %"),
        ({MetricName.TTFT: Estimate(0.050, 0.0, 1.0, 2)}, (0.0051, 0.03), "TTFT by 10 %"),
        ({MetricName.TTFT: Estimate(0.005, 0.0049, 0.0051, 500)}, (0.0009, 0.03), None),
        (SHARP, (0.0005, 0.09), None),
        (SHARP, (0.0005, 0.11), "the p99 of TTFT"),
        (SPEED, (0.019, 0.02), None),
        (SPEED, (0.021, 0.03), "per-user speed"),
    ],
    ids=[
        "less than 2 % of a sharp TTFT",
        "more than 2 %",
        "less than is known of TTFT",
        "more than is known",
        "a tenth, though nothing is known",
        "less than a millisecond",
        "one stop of 90 ms",
        "one that makes a p99 of its own",
        "less than 2 % of a second of decoding",
        "more than that",
    ],
)
def test_lateness_is_doubted_where_it_could_move_what_is_reported(
    metrics: dict[MetricName, Estimate], lag_s: tuple[float, float], moved: str | None
) -> None:
    found = {doubt.name: doubt.message for doubt in doubts(replace(FINE, metrics=metrics, lag_s=lag_s))}
    assert ("client-late" in found) == (moved is not None)
    assert moved is None or moved in found["client-late"]


def test_advice_on_more_seconds_names_the_option_and_the_key() -> None:
    advice = next(doubt.advice for doubt in doubts(replace(FINE, kept=KEPT[:1])) if doubt.name == "few-requests")
    assert "--seconds" in advice
    assert "budget.cell_seconds" in advice
