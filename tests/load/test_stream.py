"""Streams that real servers sent, and every way in which bytes can be cut or broken."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectune.load.sse import Piece, decode_sse
from spectune.load.stream import ParsedStream, parse_stream

# A busy machine is no reason to fail.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

CASES = Path(__file__).parents[1] / "cases" / "streams"


def load(name: str) -> list[Piece]:
    """A recording in one piece per event; those without times are numbered."""
    raw = (CASES / f"{name}.sse").read_bytes()
    if raw.startswith(b"data:"):
        return list(enumerate(event + b"\n\n" for event in raw.split(b"\n\n") if event))
    timed = (line.split(b"\t", 1) for line in raw.splitlines())
    return [(round(float(seconds) * 1e9), line + b"\n\n") for seconds, line in timed]


def event(message: dict[str, Any], end: bytes = b"\n\n") -> bytes:
    return b"data: " + json.dumps(message, ensure_ascii=False).encode() + end


def delta(text: str | None = None, *, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    said = fields if text is None else {"content": text, **fields}
    return {"id": "a", "model": "m", "choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def parse(*events: bytes) -> ParsedStream:
    """Each event in its own piece, stamped 0, 1, 2 ..."""
    return parse_stream(enumerate(events))


def cut(data: bytes, at: list[int]) -> list[Piece]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in at), len(data)]
    return [(i, data[start:end]) for i, (start, end) in enumerate(pairwise(bounds))]


def without_times(parsed: ParsedStream) -> ParsedStream:
    return replace(parsed, first_token_ns=None, last_token_ns=None, chunk_stamps_ns=(0,) * len(parsed.chunk_stamps_ns))


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


# ---- server-sent events ----


def reference(data: bytes) -> list[bytes]:
    """The rules of the HTML standard, on a whole stream at once."""
    text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events = []
    for block in text.split(b"\n\n"):
        values = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
        if values:
            events.append(b"\n".join(values))
    return events


line_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
values = st.binary(max_size=12).map(lambda data: re.sub(rb"[\r\n]", b"x", data))
lines = st.one_of(
    st.tuples(st.sampled_from([b"data: ", b"data:", b": ", b"event: ", b"id:", b"retry: ", b"x"]), values).map(
        b"".join
    ),
    st.sampled_from(["data: über ☃ 🦙", "data: [DONE]", "data: {}"]).map(str.encode),
)


@st.composite
def sse(draw: st.DrawFn) -> bytes:
    blocks = draw(st.lists(st.lists(lines, min_size=1, max_size=4), max_size=6))
    end = draw(line_ends)
    start = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    return start + b"".join(end.join([*block, b"", b""]) for block in blocks)


@patient
@given(data=sse(), at=st.lists(st.integers(0, 1000), max_size=20))
def test_events_are_the_same_however_they_are_cut(data: bytes, at: list[int]) -> None:
    assert [payload for _, payload in decode_sse(cut(data, at))] == reference(data)


@patient
@given(data=st.binary(max_size=200), at=st.lists(st.integers(0, 1000), max_size=20))
def test_arbitrary_bytes_are_the_same_however_they_are_cut(data: bytes, at: list[int]) -> None:
    whole = list(decode_sse([(0, data)]))
    assert [payload for _, payload in decode_sse(cut(data, at))] == [payload for _, payload in whole]


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\rdata: b\n\n", [b"a\nb"]),
        (b"data:a\r\rdata:  b\r\n\r\n", [b"a", b" b"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b": comment\n\ndata: a\nevent: x\ndata: b\n\n", [b"a\nb"]),
        (b"data\n\ndata: \n\n", [b"", b""]),
        (b"data: a\n", [b"a"]),
        (b"data: a", []),
        (b"data: a\n\ndata: [DONE]", [b"a", b"[DONE]"]),
        (b"data: a\n\ndata: [DON", [b"a"]),
        (b"database: a\n\n", []),
        (b"\n\n\r\n", []),
    ],
)
def test_events(data: bytes, events: list[bytes]) -> None:
    assert [payload for _, payload in decode_sse([(0, data)])] == events


def test_every_place_to_cut_line_ends_and_characters() -> None:
    data = "\ufeffdata: ü\r\ndata: b\r\n\r\ndata: c\r\rdata: d\n\ndata: e\n\r\ndata: [DONE]\r\n\r\n".encode()
    events = ["ü\nb".encode(), b"c", b"d", b"e", b"[DONE]"]
    for first in range(len(data) + 1):
        for second in range(first, len(data) + 1):
            pieces = [(0, data[:first]), (1, data[first:second]), (2, data[second:])]
            assert [payload for _, payload in decode_sse(pieces)] == events


def test_an_event_has_the_stamp_of_the_piece_that_completed_it() -> None:
    pieces = [(1, b"data: a\n"), (2, b"\ndata: b\n\nda"), (3, b"ta: c"), (4, b"\r"), (5, b"\n\r\n"), (6, b"data: d")]
    assert list(decode_sse([*pieces, (7, b"\n")])) == [(2, b"a"), (2, b"b"), (5, b"c"), (7, b"d")]


def test_a_giant_event_in_many_pieces_is_joined_once() -> None:
    text = "x" * 20_000_000
    data = event(delta(text))
    parsed = parse_stream((i, data[i : i + 1000]) for i in range(0, len(data), 1000))
    assert parsed.text == text


# ---- what the events say ----


def test_a_role_and_empty_deltas_are_no_tokens() -> None:
    parsed = parse(
        event(delta("", role="assistant")), event(delta()), event(delta("one")), event(delta("")), event(delta(" two")),
        event(delta(finish="stop")), b"data: [DONE]\n\n",
    )  # fmt: skip
    assert (parsed.first_token_ns, parsed.last_token_ns, parsed.chunk_stamps_ns) == (2, 4, (2, 4))
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
    assert parsed.chunk_stamps_ns == (0, 1, 2, 3, 4, 5)


def test_token_ids_without_text_are_output() -> None:
    message = {"choices": [{"index": 0, "text": "", "finish_reason": None, "token_ids": [5, 6]}]}
    said = [event({"choices": [{"text": text, "token_ids": [7]}]}) for text in ("ü", "b", "c")]
    parsed = parse(event(message), *said)
    assert (parsed.token_ids, parsed.chunk_stamps_ns, parsed.text) == (5, (0, 1, 2, 3), "übc")


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


# ---- the short cut through runs of like events ----

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


# ---- nothing raises ----

NAMES = """choices delta content text reasoning reasoning_content tool_calls function name arguments token_ids
    finish_reason usage completion_tokens prompt_tokens_details timings draft_n metrics speculative_decoding sglext
    meta_info error message object model stop tokens stop_type prompt_progress spec_tokens_details"""
names = st.sampled_from(NAMES.split())
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5), names)
anything = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5))


@patient
@given(messages=st.lists(anything, max_size=5))
def test_no_message_raises(messages: list[object]) -> None:
    parse_stream([(0, b"".join(b"data: " + json.dumps(message).encode() + b"\n\n" for message in messages))])


@patient
@given(pieces=st.lists(st.binary(max_size=60), max_size=8), started=st.booleans())
def test_no_bytes_raise(pieces: list[bytes], started: bool) -> None:
    parse_stream(enumerate([good] * started + pieces))
