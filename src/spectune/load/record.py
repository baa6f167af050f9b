"""From a raw exchange to a request record: how it ended, and tokens from where they can be trusted."""

from __future__ import annotations

import hashlib
import zlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from spectune.domain.measurement import Outcome, Phase, RequestRecord, TokenSource
from spectune.domain.workload import Prompt
from spectune.load.exchange import Outcome as HttpOutcome
from spectune.load.exchange import RawExchange
from spectune.load.stream import ParsedStream, parse_stream

Tokenizer = Callable[[str], int]
"""How many tokens a text has, by the tokenizer of the model."""

_ENOUGH_TO_COMPRESS = 200
_DETAIL = 300

_OUTCOMES = {
    HttpOutcome.HTTP_ERROR: Outcome.HTTP_ERROR,
    HttpOutcome.PROTOCOL_ERROR: Outcome.STREAM_ERROR,
    HttpOutcome.CONNECT_FAILED: Outcome.CONNECT_FAILED,
    HttpOutcome.RESET: Outcome.RESET,
    HttpOutcome.TRUNCATED: Outcome.TRUNCATED,
    HttpOutcome.TIMED_OUT_CONNECT: Outcome.TIMEOUT_CONNECT,
    HttpOutcome.TIMED_OUT_FIRST: Outcome.TIMEOUT_FIRST,
    HttpOutcome.TIMED_OUT_IDLE: Outcome.TIMEOUT_IDLE,
    HttpOutcome.CANCELLED: Outcome.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Recorded:
    """A record with what only the summary needs.

    Attributes:
        stamps: of its chunks, ns.
        text: the answer.
        in_session: a turn of a session, whose beginning the server may well have cached.
        forced: the prompt asked for its full length.
    """

    record: RequestRecord
    stamps: array[int]
    text: str
    in_session: bool = False
    forced: bool = False


def make_record(
    prompt: Prompt,
    phase: Phase,
    due_ns: int,
    exchange: RawExchange,
    tokenizer: Tokenizer | None = None,
    *,
    keep_text: bool = True,
    compress: bool = True,
) -> Recorded:
    """Classifies one request. A stream is OK only if it says why it ended; everything else has its own name.

    Tokens are what the server says, else the token ids that it sent, else what the tokenizer makes of the answer, else
    unknown.

    Args:
        tokenizer: where the server does not count.
        keep_text: of the answer, in what is returned.
        compress: the answer, to see whether it repeats itself.
    """
    parsed = parse_stream(exchange.pieces)
    outcome, detail = _outcome(exchange, parsed)
    answer = parsed.reasoning + parsed.text + parsed.tool_calls
    tokens, source = _tokens(parsed, answer, tokenizer)
    record = RequestRecord(
        prompt_id=prompt.id,
        domain=prompt.domain,
        outcome=outcome,
        phase=phase,
        due_ns=due_ns,
        sent_ns=exchange.sent_ns,
        first_ns=parsed.first_token_ns,
        last_ns=parsed.last_token_ns,
        end_ns=exchange.end_ns,
        output_tokens=tokens,
        token_source=source,
        prompt_tokens=parsed.usage_prompt_tokens,
        cached_tokens=parsed.cached_prompt_tokens,
        chunks=len(parsed.chunk_stamps_ns),
        finish_reason=parsed.finish_reason,
        drafted=parsed.drafted,
        accepted=parsed.accepted,
        output_sha256=hashlib.sha256(answer.encode()).hexdigest()[:16] if answer else "",
        output_compression=_compression(answer) if compress else None,
        detail=detail[:_DETAIL],
    )
    text = answer if keep_text else ""
    return Recorded(record, parsed.chunk_stamps_ns, text, bool(prompt.session), prompt.fixed_length)


def _outcome(exchange: RawExchange, parsed: ParsedStream) -> tuple[Outcome, str]:
    if exchange.outcome is HttpOutcome.HTTP_ERROR:
        return Outcome.HTTP_ERROR, _http_detail(exchange)
    if exchange.outcome is not HttpOutcome.COMPLETE:
        return _OUTCOMES[exchange.outcome], exchange.detail
    if parsed.error is not None:
        return Outcome.STREAM_ERROR, parsed.error
    if parsed.malformed:
        return Outcome.STREAM_ERROR, f"{parsed.malformed} events of the stream are not JSON objects"
    if parsed.finish_reason is None:
        return Outcome.TRUNCATED, "the stream ended without a finish_reason"
    if parsed.first_token_ns is None:
        return Outcome.EMPTY, "an answer without output"
    return Outcome.OK, ""


def _http_detail(exchange: RawExchange) -> str:
    """The server's own message, where its error body has one."""
    body = b"".join(data for _, data in exchange.pieces)
    try:
        error = orjson.loads(body)["error"]
        message = error["message"] if isinstance(error, dict) else error
    except (orjson.JSONDecodeError, KeyError, TypeError):
        message = body[:_DETAIL].decode(errors="replace")
    return f"{exchange.detail}: {message}" if message else exchange.detail


def _tokens(parsed: ParsedStream, answer: str, tokenizer: Tokenizer | None) -> tuple[int | None, TokenSource]:
    if parsed.usage_output_tokens is not None:
        return parsed.usage_output_tokens, TokenSource.USAGE
    if parsed.token_ids is not None:
        return parsed.token_ids, TokenSource.TOKEN_IDS
    if tokenizer and answer:
        return tokenizer(answer), TokenSource.TOKENIZER
    return None, TokenSource.UNKNOWN


def _compression(answer: str) -> float | None:
    data = answer.encode()
    if len(data) < _ENOUGH_TO_COMPRESS:
        return None
    # A window of 8 kB: to make room for the usual one takes longer than to compress an answer. Level 1 finds loops.
    compressor = zlib.compressobj(level=1, wbits=13, memLevel=6)
    return (len(compressor.compress(data)) + len(compressor.flush())) / len(data)
