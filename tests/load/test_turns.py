"""Two servers in turns: the same prompts, one at a time, and each measured as if it were alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.assemble.clock import SystemClock
from spectune.domain.errors import EngineFailure, FailureKind, InputError
from spectune.domain.measurement import Phase
from spectune.domain.metrics import MetricName
from spectune.domain.ports import Limits
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Cell, Level, LevelKind, Message, Prompt, Sampling
from spectune.load.generator import HttpLoad
from spectune.load.turns import Deck
from tests.load.conftest import Mock, StartMock
from tests.load.test_closed_loop import QUICK, prompts, target


def duel(
    first: Mock, second: Mock, level: Level, seconds: float = 1.5, given: Iterator[Prompt] | None = None
) -> tuple[MeasuredCell, MeasuredCell]:
    load = HttpLoad(SystemClock(), lambda: 0.0, 2, QUICK)
    cell = Cell(level, Sampling(temperature=0.0))
    targets = target(first.url), target(second.url)
    return load.duel(targets, cell, given or prompts(), Limits(seconds, 0.0001), lambda text: None)


@pytest.mark.parametrize("users", [1, 3])
def test_each_is_measured_as_if_it_were_alone(start_mock: StartMock, users: int) -> None:
    slow, fast = start_mock("--tpot-ms", "6"), start_mock("--tpot-ms", "3")
    found = duel(slow, fast, Level(users))
    for cell, tpot in zip(found, (0.006, 0.003), strict=True):
        metrics = cell.measurement.metrics
        assert metrics[MetricName.TPOT_P50].value == pytest.approx(tpot, rel=0.1)
        speeds = [r.speed_tok_s for r in cell.records if r.phase is Phase.STEADY and r.speed_tok_s]
        assert median(speeds) == pytest.approx(1 / tpot, rel=0.1)
        assert metrics[MetricName.PER_USER_SPEED].value == pytest.approx(1 / tpot, rel=0.2)
        assert cell.measurement.in_flight == pytest.approx(users, rel=0.25)
        assert cell.measurement.stopped == "time is up"
    assert metrics[MetricName.AGGREGATE_SPEED].value > 1.3 * found[0].measurement.metrics[
        MetricName.AGGREGATE_SPEED].value  # fmt: skip


def test_only_one_works_at_a_time_and_both_get_the_same_prompts(start_mock: StartMock) -> None:
    one, other = duel(start_mock("--tpot-ms", "4"), start_mock("--tpot-ms", "4"), Level(1))
    spans = sorted((r.sent_ns, r.end_ns, name) for name, cell in enumerate((one, other)) for r in cell.records)
    assert all(ended <= sent for (_, ended, _), (sent, _, _) in pairwise(spans))
    owners = [name for _, _, name in spans]
    assert sum(a != b for a, b in pairwise(owners)) >= 4
    steady = [{r.prompt_id for r in cell.records if r.phase is Phase.STEADY} for cell in (one, other)]
    assert len(steady[0] & steady[1]) >= 0.9 * max(map(len, steady))


def test_it_ends_when_the_prompts_do(start_mock: StartMock) -> None:
    found = duel(start_mock("--tpot-ms", "2"), start_mock("--tpot-ms", "2"), Level(1), 60, islice(prompts(), 5))
    assert [len(cell.records) for cell in found] == [5, 5]
    assert "prompts" in found[0].measurement.stopped


def test_a_server_that_is_gone_is_told(start_mock: StartMock) -> None:
    alive, dead = start_mock("--tpot-ms", "2"), start_mock("--tpot-ms", "2")
    dead.stop()
    with pytest.raises(EngineFailure) as caught:
        duel(alive, dead, Level(1))
    assert caught.value.kind is FailureKind.DIED_MEASURING


def test_rates_take_no_turns(start_mock: StartMock) -> None:
    mock = start_mock()
    with pytest.raises(InputError, match="turns"):
        duel(mock, mock, Level(2.0, LevelKind.RATE))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8), st.integers(0, 30))
def test_a_deck_deals_both_the_same_and_nothing_twice(turns: list[tuple[int, int]], size: int) -> None:
    all_prompts = [Prompt(str(n), "a", (Message("user", "?"),), 1) for n in range(size)]
    deck = Deck(iter(all_prompts))
    begin = 0
    for first, second in turns:
        one, other = list(islice(deck.deal(), first)), list(islice(deck.deal(), second))
        assert one == all_prompts[begin : begin + first]
        assert other == all_prompts[begin : begin + second]
        begin = min(size, begin + max(first, second))
        deck.next_turn()
