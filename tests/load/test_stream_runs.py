"""The short cut through runs of like events reads what the long way reads; nothing raises, whatever the bytes are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.load.stream import parse_stream
from tests.load.streams import cut, delta, event, patient, without_times

pytestmark = pytest.mark.usefixtures("both_ways")

texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ['"', "\\", '\\"', '","', "#", "\n", "\0", '"}}]}', "data: ", "\n\n", "ü", "🦙", '"content":"', ""]
    ),
)
shapes = st.sampled_from(["content", "reasoning_content", "text", "arguments", "odd"])


def shaped(shape: str, text: str) -> dict[str, Any]:
    if shape == "text":
        return {"id": "a", "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": None}]}
    if shape == "arguments":
        return delta(None, tool_calls=[{"index": 0, "function": {"arguments": text}}])
    if shape == "odd":
        return {"content": text, "choices": [{"text": "", "delta": {"role": text, "content": text}}], "text": text}
    return delta(None, **{shape: text})


def fields_of(said: list[tuple[str, str]]) -> dict[str, str]:
    gathered = {"text": "", "reasoning": "", "tool_calls": ""}
    names = {"reasoning_content": "reasoning", "arguments": "tool_calls"}
    for shape, text in said:
        gathered[names.get(shape, "text")] += text
    return gathered


@patient
@given(
    runs=st.lists(st.tuples(shapes, st.lists(texts, max_size=8)), max_size=4),
    at=st.lists(st.integers(0, 100_000), max_size=12),
    escape=st.booleans(),
    end=st.sampled_from([b"\n\n", b"\n\n", b"\r\n\r\n"]),
)
def test_what_was_said_is_read_however_events_and_pieces_fall(
    runs: list[tuple[str, list[str]]], at: list[int], escape: bool, end: bytes
) -> None:
    said = [(shape, text) for shape, run in runs for text in run]
    data = b"".join(
        b"data: " + json.dumps(shaped(shape, text), ensure_ascii=escape).encode() + end for shape, text in said
    )
    parsed = parse_stream(cut(data, at))
    assert {name: getattr(parsed, name) for name in ("text", "reasoning", "tool_calls")} == fields_of(said)
    assert len(parsed.chunk_stamps_ns) == sum(bool(text) for _, text in said)
    assert parsed.malformed == 0


good = event(delta("good"))
broken = st.sampled_from(
    [good, good.replace(b"good", b"x\\"), good.replace(b"good", b'x" , "y'), good.replace(b'"good"', b"5"),
     good.replace(b'"good"', b'\n"x"'), good.replace(b'"good"', b' "x" '), good.replace(b"good", b"\0"),
     good.replace(b"good", b'"\0"'), good.replace(b"good", b"\xff"), good.replace(b"good", b"\\ud800"),
     good.replace(b"good", b"a\tb"), good[:-1], good[:20], b"\n", b"\r", b"data: [DONE]\n\n", b": x\n\n", b"data: x\n",
     b"data: ", b"\xef\xbb\xbf"]
)  # fmt: skip


@patient
@given(parts=st.lists(broken, max_size=12), at=st.lists(st.integers(0, 10_000), max_size=12))
def test_broken_events_are_read_alike_with_and_without_the_short_cut(parts: list[bytes], at: list[int]) -> None:
    data = b"".join([good, *parts])
    single = without_times(parse_stream((0, data[i : i + 1]) for i in range(len(data))))
    assert without_times(parse_stream([(0, data)])) == single
    assert without_times(parse_stream(cut(data, at))) == single
    assert without_times(parse_stream(enumerate([good, *parts]))) == single


NAMES = """choices delta content text reasoning reasoning_content tool_calls function name arguments token_ids
    finish_reason usage completion_tokens prompt_tokens_details timings draft_n metrics speculative_decoding sglext
    meta_info error message object model stop tokens stop_type prompt_progress spec_tokens_details"""
names = st.sampled_from(NAMES.split())
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)  # JSON has no others
scalars = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=5), names)
anything = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5))


@patient
@given(messages=st.lists(anything, max_size=5))
def test_no_message_raises_and_each_is_told_apart(messages: list[object]) -> None:
    parsed = parse_stream([(0, b"".join(b"data: " + json.dumps(message).encode() + b"\n\n" for message in messages))])
    assert parsed.malformed == sum(not isinstance(message, dict) for message in messages)
    assert len(parsed.chunk_stamps_ns) <= len(messages)
    assert not parsed.done


@patient
@given(pieces=st.lists(st.binary(max_size=60), max_size=8), started=st.booleans())
def test_no_bytes_raise_and_hide_what_came_before(pieces: list[bytes], started: bool) -> None:
    data = [good] * started + pieces
    parsed = parse_stream(enumerate(data))
    assert parsed.text.startswith("good" * started)
    assert without_times(parsed) == without_times(parse_stream([(0, b"".join(data))]))


@patient
@given(
    answers=st.lists(st.lists(st.lists(texts.filter(bool), min_size=1, max_size=4), max_size=6), max_size=3),
    role=st.booleans(),
)
def test_events_have_the_time_of_their_piece_whatever_the_id(answers: list[list[list[str]]], role: bool) -> None:
    for number, said in enumerate(answers):
        id_ = f"cmpl-{number}"
        pieces = [b"".join(event(delta(text) | {"id": id_}) for text in together) for together in said]
        head = [event(delta(role="assistant") | {"id": id_})] * role
        end = [event(delta(finish="stop") | {"id": id_, "usage": {"completion_tokens": number}})]
        parsed = parse_stream(enumerate(head + pieces + end))
        assert list(parsed.chunk_stamps_ns) == [n + role for n, together in enumerate(said) for _ in together]
        assert parsed.text == "".join(text for together in said for text in together)
        assert (parsed.finish_reason, parsed.usage_output_tokens, parsed.model) == ("stop", number, "m")
