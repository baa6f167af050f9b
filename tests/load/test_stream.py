"""Streams that real servers sent, and what their events say."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectune.load.stream import parse_stream
from tests.load.streams import cut, delta, event, load, parse, patient, without_times

pytestmark = pytest.mark.usefixtures("both_ways")

# The expected values were read off the files line by line, with another program.
RECORDED: dict[str, dict[str, Any]] = {
    "vllm_ngram_token_ids": {
        "chunks": 50, "times": (2_429_840_000, 4_489_250_000), "output": 128, "prompt": 354, "cached": 0,
        "drafts": (141, 78), "ids": 128, "finish": "length", "done": True, "model": "smol",
        "text": (375, "7c442262263b3b81"),
    },
    "vllm_ngram_running_usage": {
        "chunks": 91, "times": (236_090_000, 6_282_610_000), "output": 192, "prompt": 354, "cached": 256,
        "drafts": (189, 99), "ids": None, "finish": "length", "done": True, "model": "smol",
        "text": (552, "cea52fa9e32397f4"),
    },
    "vllm_draft": {
        "chunks": 25, "times": (1_287_700_000, 4_462_240_000), "output": 96, "prompt": 354, "cached": None,
        "drafts": (72, 72), "ids": None, "finish": "length", "done": True, "model": "smol",
        "text": (283, "301a019bed383e5b"),
    },
    "llamacpp_ngram": {
        "chunks": 128, "times": (3_649_960_000, 6_854_790_000), "output": 128, "prompt": 354, "cached": 0,
        "drafts": (204, 82), "ids": None, "finish": "length", "done": True, "model": "/models/smollm2",
        "text": (375, "7c442262263b3b81"),
    },
    "llamacpp_cut_by_sigterm": {
        "chunks": 100, "times": (0, 99), "output": None, "prompt": None, "cached": None,
        "drafts": (None, None), "ids": None, "finish": None, "done": False, "model": "/models/smollm2",
        "text": (471, "2d6563b27b39b638"),
    },
    "llamacpp_native_timings": {
        "chunks": 24, "times": (2, 25), "output": 24, "prompt": 17, "cached": 0,
        "drafts": (18, 18), "ids": 24, "finish": "length", "done": False, "model": "/models/smollm2",
        "text": (116, "3cba764f5ff8533d"),
    },
    "sglang_mtp3": {
        "chunks": 19, "times": (1, 19), "output": 40, "prompt": 32, "cached": None,
        "drafts": (None, None), "ids": None, "finish": "length", "done": True, "model": "q35",
        "text": (40, "ddca73823fb7b707"),
    },
    "sglang_ngram": {
        "chunks": 10, "times": (1, 10), "output": 40, "prompt": 32, "cached": None,
        "drafts": (None, None), "ids": None, "finish": "length", "done": True, "model": "smol",
        "text": (420, "f662f3c16e9545c7"),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_streams(name: str) -> None:
    parsed = parse_stream(load(name))
    assert {
        "chunks": len(parsed.chunk_stamps_ns),
        "times": (parsed.first_token_ns, parsed.last_token_ns),
        "output": parsed.usage_output_tokens,
        "prompt": parsed.usage_prompt_tokens,
        "cached": parsed.cached_prompt_tokens,
        "drafts": (parsed.drafted, parsed.accepted),
        "ids": parsed.token_ids,
        "finish": parsed.finish_reason,
        "done": parsed.done,
        "model": parsed.model,
        "text": (len(parsed.text), hashlib.sha256(parsed.text.encode()).hexdigest()[:16]),
    } == RECORDED[name]
    assert (parsed.reasoning, parsed.tool_calls, parsed.error, parsed.malformed) == ("", "", None, 0)


@pytest.mark.parametrize("name", RECORDED)
@settings(patient, max_examples=25)
@given(at=st.lists(st.integers(0, 1 << 20), max_size=30))
def test_recorded_streams_are_the_same_however_they_are_cut(name: str, at: list[int]) -> None:
    pieces = load(name)
    data = b"".join(piece for _, piece in pieces)
    assert without_times(parse_stream(cut(data, at))) == without_times(parse_stream(pieces))


@pytest.mark.parametrize("name", RECORDED)
def test_a_stream_in_single_bytes_and_in_one_piece(name: str) -> None:
    pieces = load(name)
    data = b"".join(piece for _, piece in pieces)
    expected = without_times(parse_stream(pieces))
    assert without_times(parse_stream([(0, data)])) == expected
    assert without_times(parse_stream((0, data[i : i + 1]) for i in range(len(data)))) == expected


def test_a_role_and_empty_deltas_are_no_tokens() -> None:
    parsed = parse(
        event(delta("", role="assistant")), event(delta()), event(delta("one")), event(delta("")), event(delta(" two")),
        event(delta(finish="stop")), b"data: [DONE]\n\n",
    )  # fmt: skip
    assert (parsed.first_token_ns, parsed.last_token_ns, tuple(parsed.chunk_stamps_ns)) == (2, 4, (2, 4))
    assert (parsed.text, parsed.finish_reason, parsed.done, parsed.model) == ("one two", "stop", True, "m")
    assert parsed.usage_output_tokens is None


def test_reasoning_and_tool_calls_are_output() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "look", "arguments": ""}}
    parsed = parse(
        event(delta(None, reasoning_content="so", reasoning="so")),
        event(delta(None, reasoning=" what")),
        event(delta("x", reasoning_content="!")),
        event(delta(None, tool_calls=[call])),
        event(delta(None, tool_calls=[{"index": 0, "function": {"arguments": '{"a":'}}])),
        event(delta(None, tool_calls=[{"index": 0, "function": {"arguments": '"b"}'}}])),
        event(delta(finish="tool_calls")),
    )
    assert (parsed.reasoning, parsed.text, parsed.tool_calls) == ("so what!", "x", '{"a":"b"}')
    assert tuple(parsed.chunk_stamps_ns) == (0, 1, 2, 3, 4, 5)


def test_token_ids_without_text_are_output() -> None:
    message = {"choices": [{"index": 0, "text": "", "finish_reason": None, "token_ids": [5, 6]}]}
    said = [event({"choices": [{"text": text, "token_ids": [7]}]}) for text in ("ü", "b", "c")]
    parsed = parse(event(message), *said)
    assert (parsed.token_ids, tuple(parsed.chunk_stamps_ns), parsed.text) == (5, (0, 1, 2, 3), "übc")


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"error": {"message": "out of memory", "code": 500}}, "out of memory"),
        ({"error": "gone"}, "gone"),
        ({"error": {"code": 7}}, '{"code":7}'),
        ({"object": "error", "message": "bad", "code": 400}, "bad"),
        ({"error": None, "choices": []}, None),
    ],
)
def test_errors_inside_a_stream(message: dict[str, Any], error: str | None) -> None:
    parsed = parse(event(delta("a")), event(message), b"data: [DONE]\n\n")
    assert (parsed.error, parsed.text, parsed.done) == (error, "a", True)


def test_the_last_usage_holds_and_null_says_nothing() -> None:
    parsed = parse(
        event(delta("a") | {"usage": {"completion_tokens": 1, "prompt_tokens": 9}}),
        event(delta("b") | {"usage": {"completion_tokens": 4, "prompt_tokens": 9}}),
        event(delta("c") | {"usage": None}),
        event({"choices": [], "usage": {"completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 3}}}),
    )
    assert (parsed.usage_output_tokens, parsed.usage_prompt_tokens, parsed.cached_prompt_tokens) == (7, 9, 3)


def test_a_template_of_one_event_does_not_hide_what_the_next_one_says() -> None:
    usage = {"usage": {"completion_tokens": 5}}
    parsed = parse(
        *(event(delta(text)) for text in ("a", "b")), event(delta("c") | usage), event(delta("d", finish="stop"))
    )
    assert (parsed.text, parsed.usage_output_tokens, parsed.finish_reason) == ("abcd", 5, "stop")


def test_a_fact_that_is_told_again_holds_again() -> None:
    once = {"usage": {"completion_tokens": 1}}
    told = [
        event(delta("a") | once),
        event({"choices": [], "usage": {"completion_tokens": 4}}),
        event(delta("b") | once),
    ]
    for pieces in (told, [b"".join(told)]):
        assert parse(*pieces).usage_output_tokens == 1


def test_likeness_is_not_enough_for_a_template() -> None:
    refusals = [event(delta("a")), *(event(delta(None, refusal=text)) for text in "bc"), event(delta("d"))]
    noise = [event({"content": text} | delta("x")) for text in "abc"]
    for pieces in ((refusals, noise), ([b"".join(refusals)], [b"".join(noise)])):
        assert [parse(*run).text for run in pieces] == ["ad", "xxx"]


def test_llamacpp_timings_stand_in_for_usage() -> None:
    timings = {"cache_n": 353, "prompt_n": 1, "predicted_n": 192, "draft_n": 381, "draft_n_accepted": 2}
    parsed = parse(event(delta("a")), event(delta(finish="length") | {"timings": timings}))
    assert (parsed.usage_output_tokens, parsed.usage_prompt_tokens, parsed.cached_prompt_tokens) == (192, 354, 353)
    assert (parsed.drafted, parsed.accepted) == (381, 2)


@pytest.mark.parametrize(
    "fields",
    [
        {"sglext": {"spec_tokens_details": {"spec_num_proposed_drafts": 6, "spec_num_correct_drafts": 4}}},
        {"meta_info": {"spec_proposed_drafts": 6, "spec_accepted_drafts": 4}},
        {"metrics": {"speculative_decoding": {"num_draft_tokens": 6, "num_accepted_draft_tokens": 4}}},
    ],
)
def test_draft_counts_of_engines(fields: dict[str, Any]) -> None:
    parsed = parse(event(delta("a")), event({"choices": []} | fields))
    assert (parsed.drafted, parsed.accepted) == (6, 4)


def test_malformed_events_are_counted_and_a_cut_one_is_not() -> None:
    parsed = parse(event(delta("a")), b"data: {oops}\n\n", b"data: 7\n\n", event(delta("b")), event(delta("c"))[:-20])
    assert (parsed.malformed, parsed.text, parsed.done, parsed.finish_reason) == (2, "ab", False, None)


def test_an_empty_event_is_no_malformed_one() -> None:
    assert parse(event(delta("a")), b"data:\n\n", b"data: \n\n").malformed == 0


@pytest.mark.parametrize("ending", [b"data: [DONE]", b"data: [DONE]\n", b"data:[DONE]"])
def test_a_stream_may_end_without_its_last_blank_line(ending: bytes) -> None:
    assert parse(event(delta("a")), event(delta("b", finish="stop")), ending).done
    parsed = parse(event(delta("a")), event(delta("b", finish="stop"), end=b"\n"))
    assert (parsed.text, parsed.finish_reason, parsed.last_token_ns) == ("ab", "stop", 1)
