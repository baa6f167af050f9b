from __future__ import annotations

from itertools import islice

import pytest

from spectune.domain.errors import InputError
from spectune.domain.workload import Prompt
from spectune.workload import builtin_source


def dealt(lane: int, lanes: int, count: int, seed: int = 1) -> list[Prompt]:
    return list(islice(builtin_source(seed=seed).deal(lane, lanes), count))


def test_there_are_enough_of_each_kind() -> None:
    info = builtin_source().info
    assert set(info.domains) == {"code_edit", "chat", "extraction", "prose"}
    assert all(count >= 15 * 6 for count in info.domains.values())
    bases = {prompt.id.split("/")[0] for prompt in dealt(0, 1, 400)}
    assert len(bases) >= 60


def test_domains_take_turns() -> None:
    domains = [prompt.domain for prompt in dealt(2, 7, 12)]
    assert domains == domains[:4] * 3
    assert len(set(domains[:4])) == 4


def test_no_prompt_is_dealt_twice_in_any_lane_or_between_lanes() -> None:
    texts = [prompt.messages[0].content for lane in range(7) for prompt in dealt(lane, 7, 300)]
    ids = [prompt.id for lane in range(7) for prompt in dealt(lane, 7, 300)]
    assert len(set(texts)) == len(texts) == 2100
    assert len(set(ids)) == len(ids)


def test_a_lane_is_the_same_every_time_and_another_seed_is_another_order() -> None:
    assert dealt(1, 7, 50) == dealt(1, 7, 50)
    assert dealt(1, 7, 50) != dealt(1, 7, 50, seed=2)


def test_short_lanes_rarely_share_a_base_prompt() -> None:
    bases = [{prompt.id.split("/")[0] for prompt in dealt(lane, 7, 12)} for lane in range(7)]
    shared = sum(len(one & other) for i, one in enumerate(bases) for other in bases[:i])
    assert shared == 0


def test_a_lane_ends_when_its_variants_are_used_up() -> None:
    whole = list(builtin_source(domains=("chat",)).deal(0, 1))
    assert len(whole) == builtin_source(domains=("chat",)).info.prompts


def test_every_slot_is_filled_and_dollars_survive() -> None:
    texts = [prompt.messages[0].content for prompt in dealt(0, 1, 600)]
    assert not any("$$" in text for text in texts)
    assert all(text == text.strip() and text for text in texts)


def test_caps_only_shorten() -> None:
    capped = list(islice(builtin_source(max_tokens=60).deal(0, 1), 200))
    natural = list(islice(builtin_source().deal(0, 1), 200))
    assert [p.max_tokens for p in capped] == [min(60, p.max_tokens) for p in natural]


def test_the_hash_changes_with_what_is_sent() -> None:
    hashes = {source.info.sha256 for source in (builtin_source(), builtin_source(seed=2), builtin_source(max_tokens=8))}
    assert len(hashes) == 3


def test_an_unknown_domain_is_named_with_those_there_are() -> None:
    with pytest.raises(InputError, match="'poems'") as caught:
        builtin_source(domains=("poems",))
    assert "prose" in caught.value.advice
