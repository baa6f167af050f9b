"""When a busy service may be stopped, in simulated time and on a real systemd."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest

from spectune.domain.drain import Busy, DrainSpec, ServiceBusy
from spectune.domain.errors import HostError
from spectune.domain.service_state import Purpose
from spectune.systemd.draining import drain
from spectune.systemd.guard import Drain
from tests.systemd.box import Bench, whole_command
from tests.systemd.faults import WINNER, Old

BUSY, QUIET = Busy(5, 2, "/metrics"), Busy(1, 0, "/metrics")


@dataclass
class Time:
    at: float = 0.0
    said: list[str] = field(default_factory=list)

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def reading(*seen: Busy | None) -> Callable[[], Busy | None]:
    """Tells one after the other, the last for ever."""
    values = itertools.chain(seen, itertools.repeat(seen[-1]))
    return lambda: next(values)


@pytest.mark.parametrize(
    ("rule", "seen", "waited"),
    [
        (DrainSpec(), [None], 0),
        (DrainSpec(None, 0), [BUSY], 0),
        (DrainSpec(7, 0), [BUSY], 0),
        (DrainSpec(1, 60), [BUSY, BUSY, BUSY, QUIET], 3),
        (DrainSpec(0, 60), [BUSY, QUIET, Busy(0, 0, "/slots")], 2),
        (DrainSpec(1, 60), [None, None, QUIET], 2),
        (DrainSpec(1, 60), [None, BUSY, None, None, QUIET], 4),
    ],
)
def test_waits_until_there_is_little_to_do(rule: DrainSpec, seen: Iterable[Busy | None], waited: float) -> None:
    time = Time()
    drain(rule, reading(*seen), time, "llm.service on box", time.said.append)
    assert time.at == waited


@pytest.mark.parametrize(
    ("rule", "seen", "message"),
    [
        (
            DrainSpec(6, 0),
            [BUSY],
            r"is busy: 5 requests run and 2 wait \(GET /metrics\), and it is stopped with at mos",
        ),
        (DrainSpec(0, 90), [QUIET], "is busy after 90 s of waiting: 1 request runs and 0 wait"),
        (DrainSpec(9, 60), [None], "does not tell how many requests it works on"),
    ],
)
def test_refuses(rule: DrainSpec, seen: Iterable[Busy | None], message: str) -> None:
    time = Time()
    with pytest.raises(HostError, match=message):
        drain(rule, reading(*seen), time, "llm.service on box", time.said.append)
    assert time.at <= rule.wait_s


def test_says_what_it_waits_for_now_and_then() -> None:
    time = Time()
    drain(DrainSpec(1, 600), reading(*[BUSY] * 70, QUIET), time, "llm.service on box", time.said.append)
    assert len(time.said) == 4
    assert time.said[0] == (
        "llm.service on box is busy: 5 requests run and 2 wait (GET /metrics); waiting until there are at most 1"
    )
    assert time.said[-1] == "llm.service on box: 1 request runs and 0 wait (GET /metrics); going on"


@pytest.mark.systemd
def test_a_busy_service_is_neither_tuned_nor_promoted_to(bench: Bench) -> None:
    old = Old.of(bench)
    bench.drain = Drain(DrainSpec(0, 0), reading(BUSY))
    for purpose in (Purpose.CAMPAIGN, Purpose.PROMOTION):
        with pytest.raises(ServiceBusy, match="is busy"), bench.guard().around(purpose):
            raise AssertionError("began")
    assert old.is_back(bench)
    assert bench.records.plan() is None


@pytest.mark.systemd
def test_a_rollback_spares_the_service_as_the_promotion_did_unless_forced(bench: Bench) -> None:
    old = Old.of(bench)
    bench.drain = Drain(DrainSpec(0, 1), reading(Busy(0, 0, "/metrics")))
    with bench.guard().around(Purpose.PROMOTION):
        bench.guard_now.promote(WINNER, whole_command(bench.launch("--spam", "2"), {}))
    # Whoever rolls back knows nothing of the campaign file.
    bench.drain = Drain(busy=reading(BUSY))
    with pytest.raises(HostError, match="busy after 1 s of waiting"):
        bench.guard("token2").rollback()
    assert len(bench.records.promotions()) == 1
    undone = bench.guard("token3").rollback(busy_too=True)
    assert undone.promotion is not None
    assert undone.promotion.number == 1
    assert old.is_back(bench)


@pytest.mark.systemd
def test_a_service_that_does_not_run_is_not_waited_for(bench: Bench) -> None:
    bench.drain = Drain(DrainSpec(0, 0), reading(None))
    with bench.guard().around():
        pass
    assert bench.box.active(bench.name) == "inactive"
