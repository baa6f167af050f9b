from __future__ import annotations

import json
import random
import string

import pytest

from spectune.domain.measurement import Outcome, Phase, TokenSource
from spectune.domain.workload import Message, Prompt
from spectune.load.exchange import Outcome as HttpOutcome
from spectune.load.exchange import RawExchange
from spectune.load.record import Recorded, make_record

PROMPT = Prompt("p1", "chat", (Message("user", "hello"),), 16)


def chunk(text: str | None = None, finish: str | None = None, **more: object) -> bytes:
    delta = {} if text is None else {"content": text}
    message = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
    return b"data: " + json.dumps(message).encode() + b"\n\n"


USAGE = (
    b'data: {"choices":[],"usage":{"completion_tokens":7,"prompt_tokens":20,'
    b'"prompt_tokens_details":{"cached_tokens":5}}}\n\n'
)
DONE = b"data: [DONE]\n\n"
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}\n\n'


def record(
    *pieces: bytes, outcome: HttpOutcome = HttpOutcome.COMPLETE, status: int = 200, detail: str = ""
) -> Recorded:
    stamped = tuple((1_000_000 * (n + 2), piece) for n, piece in enumerate(pieces))
    return make_record(
        PROMPT, Phase.STEADY, 1_000_000, RawExchange(outcome, status, 1_000_000, stamped, 99_000_000, detail)
    )


def test_a_whole_stream_is_ok_and_tokens_come_from_usage() -> None:
    done = record(ROLE, chunk("one two"), chunk(" three"), chunk(None, "stop"), USAGE, DONE)
    r = done.record
    assert (r.outcome, r.output_tokens, r.token_source, r.chunks) == (Outcome.OK, 7, TokenSource.USAGE, 2)
    assert (r.first_ns, r.last_ns) == (3_000_000, 4_000_000)  # the role chunk is no output
    assert r.ttft_s == pytest.approx(0.002)
    assert r.speed_tok_s == pytest.approx(6 / 0.001)
    assert (r.prompt_tokens, r.cached_tokens, r.finish_reason) == (20, 5, "stop")
    assert done.text == "one two three"


def test_without_usage_tokens_are_unknown_and_never_chunks() -> None:
    r = record(chunk("a"), chunk("b"), chunk(None, "stop"), DONE).record
    assert (r.outcome, r.output_tokens, r.token_source) == (Outcome.OK, None, TokenSource.UNKNOWN)
    assert r.speed_tok_s is None


@pytest.mark.parametrize(
    ("pieces", "expected", "words"),
    [
        ([chunk("a"), chunk("b")], Outcome.TRUNCATED, "without a finish_reason"),
        ([chunk("a"), chunk("b"), DONE], Outcome.TRUNCATED, "without a finish_reason"),
        ([chunk("a"), b'data: {"error":{"message":"KV cache is full"}}\n\n'], Outcome.STREAM_ERROR, "KV cache is full"),
        ([chunk("a"), b"data: {broken\n\n", chunk(None, "stop")], Outcome.STREAM_ERROR, "not JSON"),
        ([ROLE, chunk(None, "stop"), USAGE, DONE], Outcome.EMPTY, "without output"),
        ([], Outcome.TRUNCATED, "without a finish_reason"),
    ],
)
def test_a_200_is_not_yet_a_success(pieces: list[bytes], expected: Outcome, words: str) -> None:
    r = record(*pieces).record
    assert r.outcome is expected
    assert words in r.detail


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error":{"message":"min_p is not supported"}}', "HTTP 400: min_p is not supported"),
        (b'{"error":"overloaded"}', "HTTP 400: overloaded"),
        (b"<html>bad gateway</html>", "HTTP 400: <html>"),
        (b"", "HTTP 400"),
    ],
)
def test_a_http_error_carries_the_servers_words(body: bytes, words: str) -> None:
    r = record(body, outcome=HttpOutcome.HTTP_ERROR, status=400, detail="HTTP 400").record
    assert r.outcome is Outcome.HTTP_ERROR
    assert r.detail.startswith(words)


@pytest.mark.parametrize("outcome", [o for o in HttpOutcome if o is not HttpOutcome.COMPLETE])
def test_no_end_of_an_exchange_but_a_whole_one_is_ok(outcome: HttpOutcome) -> None:
    whole = (chunk("a"), chunk(None, "stop"), USAGE, DONE)
    assert record(*whole, outcome=outcome, detail="x").record.outcome is not Outcome.OK


def test_equal_answers_have_equal_hashes_and_loops_compress_well() -> None:
    looping = record(chunk("again and " * 60), chunk(None, "length"), USAGE).record
    text = "".join(random.Random(1).choices(string.printable, k=600))
    varied = record(chunk(text), chunk(None, "length"), USAGE).record
    assert looping.output_sha256 != varied.output_sha256
    assert looping.output_compression is not None
    assert varied.output_compression is not None
    assert looping.output_compression < 0.15 < varied.output_compression
    assert record(chunk("short"), chunk(None, "stop"), USAGE).record.output_compression is None
