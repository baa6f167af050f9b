"""Sessions: whose turn it is."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.workload import Message, Prompt
from spectune.load.dealer import Dealer


def prompts(sessions: Sequence[str]) -> list[Prompt]:
    """One prompt for each; "" is a prompt without a session."""
    return [Prompt(f"{n}", "a", (Message("user", "hi"),), 8, session=name) for n, name in enumerate(sessions)]


def ids(given: Sequence[Prompt | None]) -> list[str | None]:
    return [prompt.id if prompt else None for prompt in given]


def test_a_user_gets_the_whole_session_and_nobody_else_does() -> None:
    dealer = Dealer(iter(prompts(["s", "s", "s", "t", "t", ""])))
    first, second, third, fourth = (dealer.take() for _ in range(4))
    assert ids([first, second, third, fourth]) == ["0", "3", "5", None]
    assert first
    assert second
    assert third
    assert dealer.waiting == 3
    turn = dealer.follow(first)
    assert turn
    assert ids([turn, dealer.follow(turn), dealer.follow(second)]) == ["1", "2", "4"]
    assert dealer.waiting == 0
    assert ids([dealer.follow(turn), dealer.follow(second), dealer.follow(third)]) == [None, None, None]


def test_the_next_turn_is_read_when_it_is_wanted() -> None:
    dealer = Dealer(iter(prompts(["s", "s", "t"])))
    first = dealer.take()
    assert first
    assert ids([dealer.follow(first), dealer.follow(first), dealer.take()]) == ["1", None, "2"]


def test_a_turn_that_comes_after_its_session_was_over_begins_another() -> None:
    dealer = Dealer(iter(prompts(["s", "t", "s"])))
    first = dealer.take()
    assert first
    assert dealer.follow(first) is None
    assert ids([dealer.take(), dealer.take(), dealer.take()]) == ["1", "2", None]


@pytest.mark.parametrize("names", [[], ["", "", ""]])
def test_prompts_without_sessions_are_dealt_one_by_one(names: list[str]) -> None:
    dealer = Dealer(iter(prompts(names)))
    assert ids([dealer.take() for _ in range(len(names) + 1)]) == [*(str(n) for n in range(len(names))), None]


@given(names=st.lists(st.sampled_from(["", "s", "t", "u"]), max_size=40), users=st.integers(1, 5), seed=st.integers())
def test_every_prompt_is_sent_once_and_sessions_in_order(names: list[str], users: int, seed: int) -> None:
    draw = random.Random(seed)
    dealer = Dealer(iter(prompts(names)))
    at: list[Prompt | None] = [None] * users
    sent: list[Prompt] = []
    idle = 0
    while idle < 20 * users:
        user = draw.randrange(users)
        before = at[user]
        at[user] = (dealer.follow(before) if before else None) or dealer.take()
        now = at[user]
        idle = 0 if now else idle + 1
        if now:
            # Nobody else is at this session.
            assert not now.session or all(p is None or p.session != now.session for p in [*at[:user], *at[user + 1 :]])
            sent.append(now)
    assert sorted(int(p.id) for p in sent) == list(range(len(names)))
    for name in {"s", "t", "u"}:
        turns = [int(p.id) for p in sent if p.session == name]
        assert turns == sorted(turns)
