"""Sources that make their prompts: synthetic, agentic, repetitive."""

from __future__ import annotations

import json
import random
import statistics
import zlib
from collections import Counter
from itertools import groupby, islice, pairwise
from pathlib import Path

import pytest

from spectune.domain.errors import InputError
from spectune.domain.ports import PromptSource
from spectune.domain.workload import Prompt
from spectune.workload import agentic, open_source, repetitive, synthetic, text
from spectune.workload.agentic.workshop import make, skeletons
from spectune.workload.lengths import Lengths, fixed, from_file, lognormal, parse_lengths, uniform


def sessions(source: PromptSource, count: int, lane: int = 0, lanes: int = 1) -> list[list[Prompt]]:
    grouped = groupby(source.deal(lane, lanes), key=lambda prompt: prompt.session)
    return [list(prompts) for _, prompts in islice(grouped, count)]


def characters(prompt: Prompt) -> int:
    return sum(len(message.content) for message in prompt.messages)


# Lengths


def drawn(lengths: Lengths, count: int = 4000) -> list[int]:
    rng = random.Random(1)
    return [lengths.draw(rng) for _ in range(count)]


def test_fixed_is_fixed() -> None:
    assert set(drawn(fixed(512))) == {512}


def test_uniform_reaches_both_ends_and_its_mean() -> None:
    values = drawn(uniform(64, 256))
    assert (min(values), max(values)) == (64, 256)
    assert statistics.mean(values) == pytest.approx(160, abs=3)


def test_lognormal_has_the_median_and_spread_that_it_names() -> None:
    values = drawn(lognormal(512, 0.5))
    ordered = sorted(values)
    assert statistics.median(values) == pytest.approx(512, rel=0.04)
    assert ordered[round(0.8413 * len(ordered))] == pytest.approx(512 * 2.718281828**0.5, rel=0.06)


def test_lengths_of_a_file_are_drawn_as_often_as_they_stand_in_it(tmp_path: Path) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text("10\n10\n10\nten\n40\n")
    lengths = from_file(path)
    assert Counter(drawn(lengths))[10] == pytest.approx(3000, abs=150)
    assert lengths.notes == ("1 bad line skipped: 4 (not a number)",)


@pytest.mark.parametrize(
    ("written", "shown"),
    [("512", "512"), ("fixed(512)", "512"), (" uniform(1, 2)", "uniform(1,2)"), ("lognormal(512,0.5)",) * 2],
)
def test_lengths_are_read_as_written(written: str, shown: str) -> None:
    assert parse_lengths(written).text == shown


@pytest.mark.parametrize(
    "wrong",
    ["", "x", "0", "-4", "1.5", "nan", "uniform(5)", "uniform(9,3)", "normal(3,4)", "lognormal(512)", "uniform(1,2",
     "lognormal(0,1)", "lognormal(inf,1)", "lognormal(nan,1)", "fixed(inf)"],
)  # fmt: skip
def test_wrong_lengths_are_input_errors(wrong: str) -> None:
    with pytest.raises(InputError):
        parse_lengths(wrong)


# Text


def test_text_has_exactly_the_words_asked_for_and_is_the_same_every_time() -> None:
    assert [len(text.words("a", count)) for count in (0, 1, 7, 500)] == [0, 1, 7, 500]
    assert text.passage("a", 50) == text.passage("a", 50) != text.passage("b", 50)


def test_text_is_varied() -> None:
    passage = text.passage("variety", 2000)
    sentences = [sentence for sentence in passage.split(". ") if len(sentence.split()) > 3]
    assert len(set(sentences)) == len(sentences)
    assert len(set(passage.lower().split())) > 350
    compressed = len(zlib.compress(passage.encode(), 9)) / len(passage)
    assert compressed > 0.3


def test_articles_fit() -> None:
    words = text.passage("articles", 5000).lower().split()
    assert not [pair for pair in pairwise(words) if pair[0] == "a" and pair[1][0] in "aeiou"]


# Synthetic


@pytest.mark.parametrize("tokens", [60, 512, 3000])
def test_synthetic_prompts_have_about_the_words_asked_for(tokens: int) -> None:
    prompts = islice(synthetic(fixed(tokens), fixed(9), tokens_per_word=1.0).deal(0, 1), 20)
    words = [len(prompt.messages[0].content.split()) for prompt in prompts]
    assert all(abs(count - tokens) <= 8 for count in words)


def test_synthetic_output_caps_follow_their_distribution_and_end_by_themselves() -> None:
    prompts = list(islice(synthetic(output=uniform(3, 5)).deal(0, 1), 60))
    assert {prompt.max_tokens for prompt in prompts} == {3, 4, 5}
    assert not any(prompt.fixed_length for prompt in prompts)


def test_a_cap_cuts_longer_answers_and_is_said() -> None:
    source = synthetic(output=uniform(3, 5), max_tokens=4)
    assert {prompt.max_tokens for prompt in islice(source.deal(0, 1), 40)} == {3, 4}
    assert any("cut at 4" in note for note in source.info.notes)


def test_fixed_length_is_marked() -> None:
    source = open_source("synthetic:in=30,out=10,end=fixed")
    assert next(source.deal(0, 1)).fixed_length
    assert any("flatters" in note for note in source.info.notes)


def test_very_short_prompts_never_repeat() -> None:
    texts = [p.messages for p in islice(synthetic(fixed(1), fixed(1)).deal(0, 1), 2000)]
    assert len(set(map(str, texts))) == 2000


# Agentic


def test_there_are_at_least_twelve_skeletons_and_all_come_up() -> None:
    known = skeletons()
    assert len(known) >= 12
    assert len({skeleton["id"] for skeleton in known}) == len(known)
    assert len({skeleton["about"] for skeleton in known}) == len(known)
    first = {session[0].messages[1].content.split("\n\n")[1] for session in sessions(agentic(), len(known))}
    assert len(first) == len(known)


@pytest.mark.parametrize("skeleton", skeletons(), ids=lambda skeleton: skeleton["id"])
def test_the_line_to_change_is_in_the_code(skeleton: dict[str, object]) -> None:
    for seed in range(4):
        shop = make(skeleton, random.Random(seed))
        service = shop.texts[shop.files["service"]]
        assert sum(shop.before in line for line in service.splitlines()) == 1
        assert shop.rule in service
        assert shop.rule in shop.texts[shop.files["test"]]
        assert not any("[[ " in content or "%%" in content for content in shop.texts.values())


@pytest.mark.parametrize("skeleton", [s for s in skeletons() if s["language"] == "python"], ids=lambda s: s["id"])
def test_python_code_is_python(skeleton: dict[str, object]) -> None:
    for seed in range(4):
        for path, content in make(skeleton, random.Random(seed)).texts.items():
            compile(content, path, "exec")


@pytest.mark.parametrize("api_tools", [False, True])
def test_a_session_grows_by_a_shared_prefix(api_tools: bool) -> None:
    for session in sessions(agentic(api_tools=api_tools), 30):
        assert 4 <= len(session) <= 10
        for before, after in pairwise(session):
            assert after.messages[: len(before.messages)] == before.messages
            assert len(after.messages) == len(before.messages) + 2


def test_prompts_grow_from_about_one_to_about_six_thousand_tokens() -> None:
    """Characters; code and text of these sessions have about 3.9 of them a token."""
    all_sessions = sessions(agentic(), 56)
    assert all(3000 <= characters(session[0]) <= 5000 for session in all_sessions)
    ends = sorted(characters(session[-1]) for session in all_sessions)
    assert ends[0] >= 9_000
    assert 20_000 <= ends[-1] <= 30_000
    assert statistics.median(ends) >= 14_000


def test_tools_run_for_a_short_time_and_the_first_prompt_waits_for_none() -> None:
    for session in sessions(agentic(), 20):
        assert session[0].think_s == 0
        assert all(0 < prompt.think_s <= 2 for prompt in session[1:])


def test_roles_alternate_so_that_every_chat_template_takes_them() -> None:
    for session in sessions(agentic(), 5):
        roles = [message.role for message in session[-1].messages]
        assert roles == ["system", *["user", "assistant"] * (len(roles) // 2 - 1), "user"]


def test_api_tools_answer_each_call_by_its_id() -> None:
    for session in sessions(agentic(api_tools=True), 5):
        last = session[-1]
        assert {tool["function"]["name"] for tool in last.extra["tools"]} >= {"read_file", "run"}
        for call, result in zip(last.messages[2::2], last.messages[3::2], strict=True):
            assert call.extra["tool_calls"][0]["id"] == result.extra["tool_call_id"]
            assert json.loads(call.extra["tool_calls"][0]["function"]["arguments"])


def test_lanes_share_no_session_and_repeat_none() -> None:
    names = [s[0].session for lane in range(3) for s in sessions(agentic(), 20, lane, 3)]
    assert len(set(names)) == len(names) == 60
    texts = [str(s[-1].messages) for lane in range(3) for s in sessions(agentic(), 20, lane, 3)]
    assert len(set(texts)) == 60


def test_that_turns_are_scripted_is_said() -> None:
    assert any("scripted" in note for note in agentic().info.notes)


# Repetitive


def test_repetitive_prompts_repeat_under_their_own_ids_and_are_marked() -> None:
    source = repetitive(max_tokens=64)
    prompts = list(islice(source.deal(0, 1), 40))
    assert len({str(prompt.messages) for prompt in prompts}) == source.info.prompts == 8
    assert len({prompt.id for prompt in prompts}) == 40
    assert all(prompt.fixed_length and prompt.max_tokens == 64 for prompt in prompts)
    assert "FLATTERS" in source.info.notes[0]
