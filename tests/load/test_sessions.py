"""Sessions in both loops: turns in order, by one user, each after the answer before it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

import orjson
import pytest

from spectune.assemble.clock import SystemClock
from spectune.domain.errors import InputError
from spectune.domain.measurement import Outcome, Phase
from spectune.domain.ports import Limits, Target
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Arrival, Cell, Level, LevelKind, Message, Prompt, Sampling
from spectune.load.body import Api, body
from spectune.load.exchange import Timeouts
from spectune.load.generator import HttpLoad
from tests.load.conftest import StartMock

TURNS = 4
CLOSED, OPEN = Level(3), Level(12.0, LevelKind.RATE, Arrival.CONSTANT)


def sessions(number: int | None = None, think_s: float = 0.0) -> Iterator[Prompt]:
    for s in count() if number is None else range(number):
        for turn in range(TURNS):
            yield Prompt(f"{s}/{turn}", "a", (Message("user", "hi"),), 6, session=f"s{s}", think_s=think_s)


def measure(url: str, level: Level, given: Iterator[Prompt], seconds: float = 1.2) -> MeasuredCell:
    load = HttpLoad(SystemClock(), lambda: 0.0, 2, Timeouts(idle_s=1.0))
    target = Target(url, "mock", lambda: None, {})
    return load.measure(target, Cell(level, Sampling()), given, Limits(seconds, 1e-9), lambda text: None)


@pytest.mark.parametrize("level", [CLOSED, OPEN], ids=lambda level: level.key)
@pytest.mark.parametrize("think_s", [0.0, 0.03])
def test_turns_wait_for_the_answer_before_and_for_thinking(start_mock: StartMock, level: Level, think_s: float) -> None:
    found = measure(start_mock("--ttft-ms", "10", "--tpot-ms", "2").url, level, sessions(think_s=think_s))
    by_id = {r.prompt_id: r for r in found.records}
    followed = 0
    for prompt_id, r in by_id.items():
        session, turn = prompt_id.split("/")
        before = by_id.get(f"{session}/{int(turn) - 1}")
        assert turn == "0" or before is not None
        if before:
            assert r.sent_ns >= before.end_ns + think_s * 1e9
            followed += before.outcome is Outcome.OK
    assert followed > 10
    assert any(r.phase is Phase.STEADY and r.prompt_id.endswith("/3") for r in by_id.values())


def test_users_at_thought_are_no_missing_load(start_mock: StartMock) -> None:
    found = measure(start_mock("--ttft-ms", "10").url, CLOSED, sessions(think_s=0.03))
    assert found.measurement.in_flight < 0.8 * 3
    assert "load-not-reached" not in {doubt.name for doubt in found.measurement.doubts}


@pytest.mark.parametrize("level", [CLOSED, OPEN], ids=lambda level: level.key)
def test_a_long_thought_does_not_outlast_the_measurement(start_mock: StartMock, level: Level) -> None:
    found = measure(start_mock("--ttft-ms", "5").url, level, sessions(think_s=60.0), seconds=0.5)
    assert found.measurement.stopped == "time is up"
    assert found.measurement.window_s < 1.0


def test_sessions_that_have_begun_are_measured_to_their_end_after_the_last_arrival(start_mock: StartMock) -> None:
    found = measure(start_mock("--ttft-ms", "30").url, OPEN, sessions(number=4), seconds=30.0)
    assert found.measurement.stopped == "prompts ran out"
    assert len(found.records) == 4 * TURNS
    assert {r.outcome for r in found.records} == {Outcome.OK}
    assert {r.phase for r in found.records} <= {Phase.WARMUP, Phase.STEADY}


PROMPT = Prompt(
    "p1",
    "tools",
    (Message("user", "look"), Message("tool", "42", {"tool_call_id": "c1"})),
    7,
    fixed_length=True,
    extra={"tools": [{"type": "function"}], "top_p": 0.5},
)


def test_extra_fields_and_a_fixed_length_go_into_the_body() -> None:
    sampling = Sampling(temperature=0.5, top_p=0.9, seed=None, extra={"top_k": 20, "top_p": 0.8})
    assert orjson.loads(body(Api.CHAT, "m", PROMPT, sampling, 5)) == {
        "model": "m",
        "messages": [{"role": "user", "content": "look"}, {"role": "tool", "content": "42", "tool_call_id": "c1"}],
        "max_tokens": 5,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "top_p": 0.5,
        "top_k": 20,
        "ignore_eos": True,
        "tools": [{"type": "function"}],
    }


def test_completions_get_the_bare_text() -> None:
    said = orjson.loads(body(Api.COMPLETIONS, "m", PROMPT, Sampling(), 5))
    assert said["prompt"] == "look\n\n42"
    assert "messages" not in said
    assert 0 <= said["seed"] < 1 << 31


def test_what_json_cannot_hold_names_its_prompt() -> None:
    odd = Prompt("p9", "a", (), 5, extra={"stop": {object()}})
    with pytest.raises(InputError, match="p9"):
        body(Api.CHAT, "m", odd, Sampling(), 5)


@pytest.mark.parametrize("level", [CLOSED, OPEN], ids=lambda level: level.key)
def test_a_prompt_that_cannot_be_sent_ends_the_measurement_with_its_error(start_mock: StartMock, level: Level) -> None:
    given = (Prompt(f"p{n}", "a", (), 4, extra={"stop": {object()}} if n == 5 else {}) for n in count())
    with pytest.raises(InputError, match="p5"):
        measure(start_mock().url, level, given)


@pytest.mark.parametrize("level", [CLOSED, OPEN], ids=lambda level: level.key)
def test_a_late_turn_that_cannot_be_sent_ends_it_too(start_mock: StartMock, level: Level) -> None:
    def given() -> Iterator[Prompt]:
        for prompt in sessions():
            odd = {"stop": {object()}} if prompt.id == "1/2" else {}
            yield Prompt(prompt.id, "a", prompt.messages, 4, session=prompt.session, extra=odd)

    with pytest.raises(InputError, match="1/2"):
        measure(start_mock().url, level, given())


def test_nothing_is_left_running_when_it_is_over(start_mock: StartMock) -> None:
    measure(start_mock("--ttft-ms", "200").url, OPEN, sessions(think_s=10.0), seconds=0.5)
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
