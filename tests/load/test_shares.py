"""Shares of several processes: nothing twice, nothing lost, sessions together."""

from __future__ import annotations

import random
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.workload import Message, Prompt
from spectune.load.shares import Shares


def prompts(sessions: list[str]) -> list[Prompt]:
    return [Prompt(f"{n}", "a", (Message("user", "hi"),), 8, session=name) for n, name in enumerate(sessions)]


@given(
    names=st.lists(st.sampled_from(["", "", "s", "t", "u"]), max_size=60),
    workers=st.integers(1, 4),
    at_once=st.integers(1, 9),
    scheduled=st.booleans(),
    seed=st.integers(),
)
def test_every_prompt_has_one_worker_and_every_session_too(
    names: list[str], workers: int, at_once: int, scheduled: bool, seed: int
) -> None:
    times = count()
    shares = Shares(iter(prompts(names)), workers, at_once, (lambda _: next(times) / 10) if scheduled else None)
    draw = random.Random(seed)
    got: list[list[Prompt]] = [[] for _ in range(workers)]
    asking = list(range(workers))
    while asking:
        worker = draw.choice(asking)
        more, are_all = shares.more(worker)
        assert more or are_all
        assert len(more) <= at_once
        got[worker] += more
        if are_all:
            asking.remove(worker)
    everything = [prompt for own in got for prompt in own]
    assert sorted(int(prompt.id) for prompt in everything) == list(range(len(names)))
    for own in got:
        ids = [int(prompt.id) for prompt in own]
        assert ids == sorted(ids)
    for name in {"s", "t", "u"}:
        assert sum(any(prompt.session == name for prompt in own) for own in got) <= 1
    dues = [
        prompt.due_s for prompt in sorted(everything, key=lambda prompt: int(prompt.id)) if prompt.due_s is not None
    ]
    begun = names.count("") + len(set(names) - {""})
    assert dues == ([n / 10 for n in range(begun)] if scheduled else [])


def test_arrivals_are_dealt_in_turns_whoever_asks() -> None:
    shares = Shares(iter(prompts([""] * 8)), 2, 3, lambda _: 0.0)
    assert [prompt.id for prompt in shares.more(1)[0]] == ["1", "3", "5"]
    assert [prompt.id for prompt in shares.more(0)[0]] == ["0", "2", "4"]
    assert [([prompt.id for prompt in more], last) for more, last in (shares.more(0), shares.more(1))] == [
        (["6"], True),
        (["7"], True),
    ]
