"""/v1/chat/completions and /v1/completions."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping

import orjson

from spectune.sim.sglang import native, streams
from spectune.sim.sglang.asked import TOOL_HEAD, TOOL_TAIL, Asked, ToolCall
from spectune.sim.sglang.job import Job
from spectune.sim.sglang.server import Server


def whole(job: Job, wish: Asked, server: Server, chat: bool) -> dict[str, object]:
    """The answer that has ended, in one piece."""
    text = job.text(0, len(job.pieces))
    choice: dict[str, object] = {"index": 0}
    reason = job.reason
    if chat:
        message: dict[str, object] = {
            "role": "assistant",
            "content": text,
            "reasoning_content": None,
            "tool_calls": None,
        }
        tool = wish.tool
        if tool is not None and tool.structured and text == TOOL_HEAD % tool.name + tool.arguments + TOOL_TAIL:
            function = {"name": tool.name, "arguments": tool.arguments}
            call = {"id": f"call_{job.rid[:24]}", "index": 0, "type": "function", "function": function}
            message.update(content=None, tool_calls=[call])
            reason = "tool_calls" if reason == "stop" else reason
        choice["message"] = message
    else:
        choice["text"] = text
    choice.update(logprobs=None, finish_reason=reason, matched_stop=_matched(job))
    if wish.meta:
        choice["meta_info"] = native.meta_info(job, server, len(job.pieces), True)
    return {
        "id": job.rid,
        "object": "chat.completion" if chat else "text_completion",
        "created": int(time.time()),
        "model": server.model,
        "choices": [choice],
        "usage": usage(job, server, len(job.pieces)),
        "metadata": {"weight_version": server.args["weight_version"]},
    }


def usage(job: Job, server: Server, tokens: int) -> dict[str, object]:
    """Tokens of a request up to now; cached ones only with --enable-cache-report."""
    prompt = len(job.wanted.tokens)
    details = {"cached_tokens": job.cached} if server.args["enable_cache_report"] else None
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + tokens,
        "completion_tokens": tokens,
        "prompt_tokens_details": details,
        "reasoning_tokens": 0,
    }


class Chunks:
    """Chunks of one stream; all that does not change is put into bytes once."""

    def __init__(self, job: Job, wish: Asked, server: Server, chat: bool) -> None:
        self._job, self._wish, self._server = job, wish, server
        kind = "chat.completion.chunk" if chat else "text_completion"
        head = {"id": job.rid, "object": kind, "created": int(time.time()), "model": server.model}
        self._head = orjson.dumps(head)[:-1] + b',"choices":['
        self._before = b'{"index":0,"delta":{"reasoning_content":null,"content":' if chat else b'{"index":0,"text":'
        self._after = (b"}" if chat else b"") + b',"logprobs":null,"finish_reason":null,"matched_stop":null}'

    def text(self, text: str, tokens: int) -> bytes:
        """New text."""
        return self._event(self._before + orjson.dumps(text) + self._after, tokens)

    def choice(self, choice: dict[str, object], tokens: int) -> bytes:
        """A choice that is not plain text."""
        return self._event(orjson.dumps(choice), tokens)

    def usage(self) -> bytes:
        """The last chunk of a stream that was asked for usage."""
        return self._event(b"", None, orjson.dumps(usage(self._job, self._server, len(self._job.pieces))))

    def _event(self, choice: bytes, tokens: int | None, told: bytes | None = None) -> bytes:
        if told is None and tokens is not None and self._wish.continuous_usage:
            told = orjson.dumps(usage(self._job, self._server, tokens))
        return b"data: " + self._head + choice + (b'],"usage":' + told + b"}\n\n" if told else b"]}\n\n")


async def events(job: Job, wish: Asked, server: Server, chat: bool) -> AsyncIterator[bytes]:
    """The answer as server-sent events."""
    chunks = Chunks(job, wish, server, chat)
    interval = server.args["stream_interval"]
    tool = wish.tool if wish.tool is not None and wish.tool.structured else None
    called = False
    async for start, end in streams.growth(job, interval if isinstance(interval, int) else 1):
        if chat and start == 0:
            role = {"reasoning_content": None, "role": "assistant", "content": ""}
            yield chunks.choice(_choice(role, None, None), end)
        if tool is not None:
            for delta in _tool_deltas(job, tool, start, end):
                called = True
                yield chunks.choice(_choice(delta, None, None), end)
        elif (text := job.text(start, end)) or not chat:
            yield chunks.text(text, end)
    if job.reason == "abort":
        error = {
            "error": {"object": "error", "message": "Abort in waiting or running queue", "type": "abort", "code": 503}
        }
        yield b"data: " + orjson.dumps(error) + b"\n\n"
    else:
        reason = "tool_calls" if called and job.reason == "stop" else job.reason
        if chat:
            yield chunks.choice(_choice({"reasoning_content": None}, reason, _matched(job)), len(job.pieces))
        else:
            yield chunks.choice(
                {"index": 0, "text": "", "logprobs": None, "finish_reason": reason, "matched_stop": _matched(job)},
                len(job.pieces),
            )
        if wish.usage:
            yield chunks.usage()
    yield streams.DONE


def _choice(delta: Mapping[str, object], reason: str | None, matched: object) -> dict[str, object]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason, "matched_stop": matched}


def _matched(job: Job) -> object:
    if job.reason != "stop":
        return None
    return job.matched if job.matched is not None else 2


def _tool_deltas(job: Job, tool: ToolCall, start: int, end: int) -> list[dict[str, object]]:
    """The parts of a tool call that became known with tokens start..end: first its name, then its arguments."""
    head = len(TOOL_HEAD % tool.name)
    before, after = len(job.text(0, start)) if start else 0, len(job.text(0, end))
    deltas: list[dict[str, object]] = []
    if before < head <= after:
        function = {"name": tool.name, "arguments": ""}
        call: dict[str, object] = {"index": 0, "id": f"call_{job.rid[:24]}", "type": "function", "function": function}
        deltas.append({"tool_calls": [call]})
    if part := tool.arguments[max(0, before - head) : max(0, after - head)]:
        deltas.append({"tool_calls": [{"index": 0, "function": {"arguments": part}}]})
    return deltas
