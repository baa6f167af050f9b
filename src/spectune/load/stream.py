"""What a recorded stream says: bytes -> server-sent events -> tokens, text, usage. Pure functions over a tape.

Nothing here raises, whatever the bytes are: a stream is what it is, and the fields of ParsedStream say what was wrong.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from spectune.load.sse import BLANK, DONE, Decoder, Piece
from spectune.load.tape import Columns, Tape
from spectune.load.template import Template, decode

_ID, _NO_ID = re.compile(rb'\{"id": ?"[\w-]+"'), b'{"id":""'
_SHORT = 1024
"""Bytes of an event up to which what it says is kept for the next answer that says the same."""


@dataclass(frozen=True, slots=True)
class ParsedStream:
    """One streamed answer.

    An event carries output if it brings text, reasoning, part of a tool call, or token ids without text (a server may
    hold text back until a character is whole). A role without content does not count. Counts of tokens and drafts are
    the server's own; the last word of the stream holds.

    Attributes:
        first_token_ns, last_token_ns: first and last event that carries output; None where there is none.
        chunk_stamps_ns: all of them. One event may carry several tokens, so their number is no number of tokens.
        text, reasoning, tool_calls: the answer; of tool calls the arguments.
        finish_reason: as the server tells; llama.cpp's stop_type in OpenAI's words.
        done: [DONE] was seen.
        usage_output_tokens, usage_prompt_tokens, cached_prompt_tokens: from `usage`, or llama.cpp's `timings`.
        drafted, accepted: draft tokens of this request, where the engine sends them.
        token_ids: how many token ids came with the events; None where none did.
        error: message of an error inside the stream.
        malformed: events that are not JSON objects.
        model: as the server tells.
    """

    first_token_ns: int | None
    last_token_ns: int | None
    chunk_stamps_ns: array[int]
    text: str
    reasoning: str
    tool_calls: str
    finish_reason: str | None
    done: bool
    usage_output_tokens: int | None
    usage_prompt_tokens: int | None
    cached_prompt_tokens: int | None
    drafted: int | None
    accepted: int | None
    token_ids: int | None
    error: str | None
    malformed: int
    model: str | None


def parse_stream(pieces: Iterable[Piece]) -> ParsedStream:
    """Reads a whole stream of /v1/chat/completions, /v1/completions or llama.cpp's /completion."""
    answer = _Answer()
    answer.read((pieces if isinstance(pieces, Tape) else Tape.of(pieces)).columns())
    return answer.parsed()


class _Answer:
    """Gathers one stream."""

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._parts: dict[str, list[str]] = {"text": [], "reasoning": [], "tool_calls": []}
        self._stamps: array[int] = array("q")
        self._facts: dict[str, Any] = {}
        self._token_ids: int | None = None
        self._malformed = 0
        self._template: Template | None = None
        self._tries = 3  # how often to learn a template before one has been of use

    def read(self, tape: Columns) -> None:
        body, stamps, ends = tape
        decoder = self._decoder
        at = read = 0
        while at < len(body):
            if self._template and decoder.is_between and (end := self._take_run(self._template, tape, at)) > at:
                at = end
                continue
            while ends[read] <= at:
                read += 1
            # To the end of a read, which may be cut anywhere, or to where the short cut may begin.
            cut = body.find(self._template.begins if self._template else BLANK, at, ends[read])
            end = ends[read] if cut < 0 else cut + len(BLANK)
            for payload in decoder.feed(body[at:end]):
                self._add(stamps[read], payload)
            at = end
        for payload in decoder.finish():
            self._add(stamps[-1] if stamps else 0, payload)

    def _take_run(self, template: Template, tape: Columns, at: int) -> int:
        """Takes events that follow the template, and returns where they end. A stream is nearly all such events."""
        found = template.read(tape, at)
        if found is None:  # they look like it and are no JSON
            self._template, self._tries = None, 0
            return at
        text, stamps, end = found
        if end > at:
            self._stamps += stamps
            template.into.append(text)
            self._tries = 3
        return end

    def _add(self, stamp: int, payload: bytes) -> None:
        if payload.strip() == DONE:
            self._facts["done"] = True
            return
        reading = _reading(payload)
        if reading is None:
            self._malformed += bool(payload)
            return
        self._facts |= reading.facts
        if reading.model:
            self._facts.setdefault("model", reading.model)
        for kind, _, text in reading.fragments:
            self._parts[kind].append(text)
        if reading.token_ids is not None:
            self._token_ids = (self._token_ids or 0) + reading.token_ids
        if reading.fragments or reading.called or reading.token_ids:
            self._stamps.append(stamp)
        if self._tries and reading.is_only_text:
            self._tries -= 1
            self._learn(payload, reading)

    def _learn(self, payload: bytes, reading: _Reading) -> None:
        """Makes a template of an event that carries one string, if that can be done beyond doubt."""
        kind, key, _ = reading.fragments[0]
        found = re.search(rb'"' + key.encode() + rb'"\s*:\s*"((?:[^"\\]++|\\.)*+)"', payload)
        if not found or b"\n" in payload or b"\r" in payload:  # of several lines of data
            return
        prefix, suffix = payload[: found.start(1)], payload[found.end(1) :]
        # Only another text in this very place proves that it is the string that was read.
        probe = _reading(prefix + b"#" + suffix)
        if probe and probe.fragments == [(kind, key, "#")]:
            self._template = Template(prefix, suffix, self._parts[kind])

    def parsed(self) -> ParsedStream:
        facts = self._facts
        return ParsedStream(
            first_token_ns=self._stamps[0] if self._stamps else None,
            last_token_ns=self._stamps[-1] if self._stamps else None,
            chunk_stamps_ns=self._stamps,
            text="".join(self._parts["text"]),
            reasoning="".join(self._parts["reasoning"]),
            tool_calls="".join(self._parts["tool_calls"]),
            finish_reason=facts.get("finish_reason"),
            done="done" in facts,
            usage_output_tokens=facts.get("usage_output_tokens", facts.get("timings_output_tokens")),
            usage_prompt_tokens=facts.get("usage_prompt_tokens", facts.get("timings_prompt_tokens")),
            cached_prompt_tokens=facts.get("cached_prompt_tokens", facts.get("timings_cached_tokens")),
            drafted=facts.get("drafted"),
            accepted=facts.get("accepted"),
            token_ids=self._token_ids,
            error=facts.get("error"),
            malformed=self._malformed,
            model=facts.get("model"),
        )


@dataclass(slots=True)
class _Reading:
    """What one message says."""

    fragments: list[tuple[str, str, str]] = field(default_factory=list)  # field of ParsedStream, key in JSON, text
    called: bool = False  # a tool call was named
    token_ids: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)  # of which the last message that states one holds
    model: str | None = None

    @property
    def is_only_text(self) -> bool:
        return len(self.fragments) == 1 and not (self.called or self.facts) and self.token_ids is None


def _reading(payload: bytes) -> _Reading | None:
    """What an event says; None if it is no JSON object.

    The last events of one answer are those of the next but for the id, of which nothing is read.
    """
    found = _ID.match(payload)
    if found is None or len(payload) > _SHORT:
        return _read_json(payload)
    return _read_once(_NO_ID + payload[found.end() :])


def _read_json(payload: bytes) -> _Reading | None:
    message = decode(payload)
    return _read(message) if isinstance(message, dict) else None


_read_once = lru_cache(maxsize=256)(_read_json)


def _read(message: dict[str, Any]) -> _Reading:
    reading = _Reading(model=_string(message.get("model")))
    facts = reading.facts
    choices = message.get("choices")
    if isinstance(choices, list):
        for choice in choices:
            if isinstance(choice, dict):
                _read_choice(choice, reading)
    elif "stop" in message and "prompt_progress" not in message:
        _read_native(message, reading)
    if usage := _mapping(message.get("usage")):
        _note(facts, "usage_output_tokens", usage.get("completion_tokens"))
        _note(facts, "usage_prompt_tokens", usage.get("prompt_tokens"))
        _note(facts, "cached_prompt_tokens", _mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    _read_counts(message, facts)
    error = message.get("error") or (message if message.get("object") == "error" else None)
    if error:
        facts["error"] = _string(_mapping(error).get("message")) or _string(error) or orjson.dumps(error).decode()
    return reading


def _read_choice(choice: dict[str, Any], reading: _Reading) -> None:
    fragments = reading.fragments
    if text := _string(choice.get("text")):
        fragments.append(("text", "text", text))
    if delta := _mapping(choice.get("delta")):
        for key in ("reasoning_content", "reasoning"):  # two names for one thing; some engines send both
            if text := _string(delta.get(key)):
                fragments.append(("reasoning", key, text))
                break
        if text := _string(delta.get("content")):
            fragments.append(("text", "content", text))
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            function = _mapping(_mapping(call).get("function"))
            if text := _string(function.get("arguments")):
                fragments.append(("tool_calls", "arguments", text))
            reading.called = reading.called or bool(_string(function.get("name")))
    if "token_ids" in choice:
        _count_ids(reading, choice["token_ids"])
    if finish_reason := _string(choice.get("finish_reason")):
        reading.facts["finish_reason"] = finish_reason
    _read_counts(choice, reading.facts)


def _read_native(message: dict[str, Any], reading: _Reading) -> None:
    """llama.cpp's /completion: no choices, the text on top, and a last message with `stop` true."""
    if text := _string(message.get("content")):
        reading.fragments.append(("text", "content", text))
    _count_ids(reading, message.get("tokens"))
    _note(reading.facts, "usage_output_tokens", message.get("tokens_predicted"))
    _note(reading.facts, "usage_prompt_tokens", message.get("tokens_evaluated"))
    if message["stop"] is True:
        reading.facts["finish_reason"] = "length" if message.get("stop_type") == "limit" else "stop"


def _read_counts(holder: dict[str, Any], facts: dict[str, Any]) -> None:
    """Counts of drafts and tokens in the places where engines put them."""
    if "timings" in holder:  # llama.cpp
        timings = _mapping(holder["timings"])
        _note(facts, "drafted", timings.get("draft_n"))
        _note(facts, "accepted", timings.get("draft_n_accepted"))
        _note(facts, "timings_output_tokens", timings.get("predicted_n"))
        cached, computed = _count(timings.get("cache_n")), _count(timings.get("prompt_n"))
        _note(facts, "timings_cached_tokens", cached)
        _note(facts, "timings_prompt_tokens", computed if cached is None or computed is None else cached + computed)
    if "metrics" in holder:  # vLLM
        drafting = _mapping(_mapping(holder["metrics"]).get("speculative_decoding"))
        _note(facts, "drafted", drafting.get("num_draft_tokens"))
        _note(facts, "accepted", drafting.get("num_accepted_draft_tokens"))
    if "sglext" in holder or "meta_info" in holder:  # SGLang
        details = _mapping(_mapping(holder.get("sglext")).get("spec_tokens_details"))
        details = details or _mapping(holder.get("meta_info"))
        _note(facts, "drafted", details.get("spec_num_proposed_drafts", details.get("spec_proposed_drafts")))
        _note(facts, "accepted", details.get("spec_num_correct_drafts", details.get("spec_accepted_drafts")))
        _note(facts, "cached_prompt_tokens", details.get("cached_tokens"))


def _count_ids(reading: _Reading, ids: object) -> None:
    if isinstance(ids, list):
        reading.token_ids = (reading.token_ids or 0) + len(ids)


def _note(facts: dict[str, Any], name: str, value: object) -> None:
    count = _count(value)
    if count is not None:
        facts[name] = count


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
