from __future__ import annotations

import json
import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.errors import InputError
from spectune.sim.sglang import answers, environment, faults
from spectune.sim.sglang.asked import tokens_of
from spectune.sim.sglang.environment import Disturbance
from spectune.sim.sglang.job import Job, Wanted
from spectune.sim.sglang.prefix_cache import BLOCK, PrefixCache

TOOL = {
    "type": "function",
    "function": {
        "name": "book",
        "parameters": {
            "type": "object",
            "properties": {"who": {"type": "string"}, "seats": {"type": "array", "items": {"type": "integer"}}},
        },
    },
}


@pytest.mark.parametrize(
    ("prompt", "told", "domain"),
    [
        ("What is a river?", None, "chat"),
        ("Fix this:\n```python\nx = 1\n```", None, "code"),
        ("def f(x):", None, "code"),
        ("Answer in JSON: a name", None, "extraction"),
        ("Extract all dates", None, "extraction"),
        ("What is a river?", "code", "code"),
        ("What is a river?", "nonsense", "chat"),
    ],
)
def test_domains(prompt: str, told: str | None, domain: str) -> None:
    assert answers.domain_of(prompt, told) == domain


@given(st.text(max_size=40), st.lists(st.integers(1, 5), min_size=1, max_size=30))
def test_greedy_text_does_not_depend_on_how_it_is_taken(prompt: str, steps: list[int]) -> None:
    one = answers.answer(prompt, "chat", 0.0, 1, None)
    other = answers.answer(prompt, "chat", 0.0, 2, None)
    taken: list[str] = []
    for step in steps:
        taken += [one.piece(len(taken) + offset) for offset in range(step)]
    assert taken == [other.piece(index) for index in range(len(taken))]


def test_sampled_text_differs_between_seeds_and_prompts() -> None:
    texts = {
        "".join(answers.answer(prompt, "chat", 0.8, seed, None).piece(i) for i in range(30))
        for prompt in ("a", "b")
        for seed in (1, 2)
    }
    assert len(texts) == 4


def test_text_that_may_not_end_goes_round_in_circles_when_greedy() -> None:
    said = answers.answer("p", "chat", 0.0, None, None)
    tail = "".join(said.piece(index) for index in range(said.length, said.length + 400))
    assert tail.count(tail[:25]) > 8


@given(st.text(max_size=60))
def test_json_and_tool_calls_are_json(prompt: str) -> None:
    assert isinstance(json.loads(answers.json_text(prompt)), dict)
    name, arguments = answers.tool_call(prompt, [TOOL], broken=False)
    assert name == "book"
    assert set(json.loads(arguments)) == {"who", "seats"}
    with pytest.raises(ValueError, match=r".*"):
        json.loads(answers.tool_call(prompt, [TOOL], broken=True)[1])


@given(st.lists(st.text("ab", max_size=3), max_size=60), st.lists(st.text("ab", max_size=3), max_size=60))
def test_prefix_cache_finds_common_blocks(first: list[str], second: list[str]) -> None:
    cache = PrefixCache(10_000)
    cache.insert(first)
    common = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
    expected = min(common // BLOCK * BLOCK, max(0, len(second) - 1))
    assert cache.match(second) == expected
    cache.clear()
    assert cache.match(second) == 0


def test_prefix_cache_forgets_what_was_not_used() -> None:
    cache = PrefixCache(4 * BLOCK)
    prompts = [[f"{number}"] * (BLOCK + 1) for number in range(6)]
    for prompt in prompts:
        cache.insert(prompt)
    assert [cache.match(prompt) for prompt in prompts] == [0, 0, BLOCK, BLOCK, BLOCK, BLOCK]
    assert len(cache) == 4 * BLOCK


@pytest.mark.parametrize(
    ("limit", "end", "stop", "reason", "text"),
    [
        (3, None, (), "length", " a b c"),
        (9, 2, (), "stop", " a b"),
        (9, None, ("c d",), "stop", " a b "),
        (9, None, (), None, " a b c d e"),
        (5, None, (), "length", " a b c d e"),
    ],
)
def test_ends_of_a_job(limit: int, end: int | None, stop: tuple[str, ...], reason: str | None, text: str) -> None:
    said = answers.Answer([f" {letter}" for letter in "abcdefgh"], [" x"], None)
    job = Job(Wanted(("p",), said, "chat", 0.0, False, limit, end, stop), 0.0)
    for _ in range(5):
        if job.reason is None:
            job.take([said.piece(len(job.pieces))])
    assert job.reason == reason
    assert job.text(0, len(job.pieces)) == text


@given(st.text())
def test_prompts_of_any_text_are_cut_into_tokens(text: str) -> None:
    assert "".join(tokens_of(text)) == "".join(text.split())


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"SPECTUNE_SIM_PROFILE": "nope"}, "nope"),
        ({"SPECTUNE_SIM_SPEED": "0"}, "SPECTUNE_SIM_SPEED"),
        ({"SPECTUNE_SIM_SPEED": "fast"}, "fast"),
        ({"SPECTUNE_SIM_LOAD_SECONDS": "-1"}, "LOAD_SECONDS"),
        ({"SPECTUNE_SIM_LOAD_SECONDS": "nan"}, "LOAD_SECONDS"),
        ({"SPECTUNE_SIM_FAULTS": "dead-haed"}, "dead-haed"),
        ({"SPECTUNE_SIM_FAULTS": "die-at-request"}, "needs a value"),
        ({"SPECTUNE_SIM_FAULTS": "die-at-request=x"}, "no number"),
        ({"SPECTUNE_SIM_NOISE": "jitter=1"}, "jitter"),
        ({"SPECTUNE_SIM_GPU_FILE": "/no/such/folder/gpu"}, "GPU_FILE"),
        ({"SPECTUNE_SIM_FAULT": "loops"}, "SPECTUNE_SIM_FAULT"),
    ],
)
def test_wrong_settings_are_refused_by_name(environ: Mapping[str, str], named: str) -> None:
    with pytest.raises(InputError) as caught:
        environment.read(environ)
    assert named in caught.value.message
    assert caught.value.advice


def test_a_misspelt_fault_is_corrected() -> None:
    with pytest.raises(InputError) as caught:
        faults.parse("dead-haed")
    assert "dead-head" in caught.value.advice


@pytest.mark.parametrize(
    ("noise", "fault", "at_start", "after_a_minute"),
    [
        ("", "", 1.0, 1.0),
        ("drift=0.1", "", 1.0, 1.1),
        ("", "slow-drift=20", 1.0, 1.2),
        ("", "noisy-neighbour", 1.5, 1.5),
    ],
)
def test_disturbances(noise: str, fault: str, at_start: float, after_a_minute: float) -> None:
    settings = environment.read({"SPECTUNE_SIM_NOISE": noise, "SPECTUNE_SIM_FAULTS": fault})
    disturbance = Disturbance(settings, random.Random(1))
    assert disturbance.factor(0.0) == pytest.approx(at_start)
    assert disturbance.factor(60.0) == pytest.approx(after_a_minute)
    assert noise or not fault.startswith("noisy") or disturbance.factor(1.5) == 1.0


def test_noise_has_the_asked_spread_and_outliers() -> None:
    settings = environment.read({"SPECTUNE_SIM_NOISE": "sd=0.05,outliers=0.01"})
    disturbance = Disturbance(settings, random.Random(1))
    factors = [disturbance.factor(1.0) for _ in range(5000)]
    usual = [factor for factor in factors if factor < 2.0]
    mean = sum(usual) / len(usual)
    spread = (sum((factor - mean) ** 2 for factor in usual) / len(usual)) ** 0.5
    assert mean == pytest.approx(1.0, abs=0.01)
    assert spread == pytest.approx(0.05, rel=0.1)
    assert 20 <= len(factors) - len(usual) <= 90
