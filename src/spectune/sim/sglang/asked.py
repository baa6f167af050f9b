"""From a request's body to what the scheduler is to do."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spectune.sim.sglang import answers
from spectune.sim.sglang.job import Wanted
from spectune.sim.sglang.server import Server

Body = Mapping[str, object]
_TOKEN = re.compile(r"\w{1,8}|[^\w\s]")
NATIVE_LIMIT = 128
COMPLETION_LIMIT = 16
TOOL_HEAD = '<tool_call>\n{"name": "%s", "arguments": '
TOOL_TAIL = "}\n</tool_call>"


class BadRequest(Exception):
    """The engine refuses the body with status 400; the text is its message."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that the answer consists of; `structured`: shown as such, not as text."""

    name: str
    arguments: str
    structured: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was understood.

    Attributes:
        usage, continuous_usage: whether a stream tells usage at its end, and in every chunk.
        meta: the body asks for meta_info with the choice.
    """

    wanted: Wanted
    stream: bool
    usage: bool = False
    continuous_usage: bool = False
    tool: ToolCall | None = None
    meta: bool = False


def chat(body: Body, server: Server) -> Asked:
    """Of /v1/chat/completions.

    Raises:
        BadRequest: it cannot be served.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages: a non-empty list is expected")
    prompt = "".join(f"<|{_role(message)}|>{_content(message)}" for message in messages) + "<|assistant|>"
    limit = body.get("max_completion_tokens", None) or body.get("max_tokens", None)
    tool = _tool(body, prompt, server)
    call = None if tool is None else TOOL_HEAD % tool.name + tool.arguments + TOOL_TAIL
    if body.get("return_meta_info") and body.get("stream"):
        raise BadRequest("return_meta_info is not supported with stream")
    return _openai(body, server, _wanted(body, body, server, prompt, limit, None, call), tool)


def completion(body: Body, server: Server) -> Asked:
    """Of /v1/completions.

    Raises:
        BadRequest: it cannot be served.
    """
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise BadRequest("prompt: one string is expected")
    wanted = _wanted(body, body, server, prompt, body.get("max_tokens"), COMPLETION_LIMIT, None)
    return _openai(body, server, wanted, None)


def native(body: Body, server: Server, text: object) -> Asked:
    """Of /generate, for one prompt: a string or a list of token ids.

    Raises:
        BadRequest: it cannot be served.
    """
    sampling = body.get("sampling_params") or {}
    if not isinstance(sampling, dict):
        raise BadRequest("sampling_params: an object is expected")
    if isinstance(text, list):
        text = " ".join(map(str, text))
    if not isinstance(text, str):
        raise BadRequest("Either text, input_ids or input_embeds should be provided.")
    wanted = _wanted(sampling, body, server, text, sampling.get("max_new_tokens"), NATIVE_LIMIT, None)
    return Asked(wanted, stream=bool(body.get("stream")))


def internal(tokens: int) -> Wanted:
    """A generation of the engine itself: warm-up, health."""
    said = answers.answer("internal", "chat", 0.0, None, None)
    return Wanted(("0",), said, "chat", 0.0, False, tokens, None, (), True)


def tokens_of(text: str) -> list[str]:
    """A prompt cut into tokens: pieces of words, and punctuation marks."""
    return _TOKEN.findall(text)


def _openai(body: Body, server: Server, wanted: Wanted, tool: ToolCall | None) -> Asked:
    if body.get("n") not in (None, 1):
        raise BadRequest("n: the simulator answers with one choice only")
    options = body.get("stream_options")
    options = options if isinstance(options, dict) else {}
    default = bool(server.args["stream_response_default_include_usage"])
    return Asked(
        wanted,
        stream=bool(body.get("stream")),
        usage=bool(options.get("include_usage", default)),
        continuous_usage=bool(options.get("continuous_usage_stats")),
        tool=tool,
        meta=bool(body.get("return_meta_info")),
    )


def _wanted(
    sampling: Body, body: Body, server: Server, prompt: str, limit: object, default: int | None, call: str | None
) -> Wanted:
    tokens = tokens_of(prompt) or [""]
    context = server.fit.context_length
    if len(tokens) >= context:
        raise BadRequest(f"The input ({len(tokens)} tokens) exceeds the model's context length ({context} tokens).")
    most = context - len(tokens)
    asked = _count(limit, "max_tokens", 1) if limit is not None else default
    temperature = _temperature(sampling.get("temperature"))
    ignore_eos = bool(sampling.get("ignore_eos"))
    domain = answers.domain_of(prompt, body.get("spectune_domain"))
    faults = server.environment.faults
    if 100 * random.random() < (faults.get("temperature-ignored") or 0.0):
        temperature = 0.0
    seed = sampling.get("seed", sampling.get("sampling_seed"))
    said = answers.answer(
        prompt,
        domain,
        temperature,
        seed if isinstance(seed, int) else random.getrandbits(32),
        call if call is not None else _structure(body, prompt, domain),
        loops="loops" in faults,
    )
    end = None if ignore_eos else max(said.length, _count(sampling.get("min_tokens"), "min_tokens", 0))
    if (cut := faults.get("truncated-answers")) is not None:
        end = int(cut) if end is None else min(end, int(cut))
    return Wanted(
        tokens,
        said,
        domain,
        temperature,
        looping=ignore_eos and temperature <= 0.0,
        limit=most if asked is None else min(asked, most),
        end=end,
        stop=_stops(sampling.get("stop")),
    )


def _structure(body: Body, prompt: str, domain: str) -> str | None:
    form = body.get("response_format")
    if isinstance(form, dict) and form.get("type") == "json_schema":
        holder = form.get("json_schema")
        schema = holder.get("schema") if isinstance(holder, dict) else None
        return answers.json_text(prompt, schema if isinstance(schema, dict) else None)
    if isinstance(form, dict) and form.get("type") == "json_object":
        return answers.json_text(prompt)
    return answers.json_text(prompt) if domain == "extraction" else None


def _tool(body: Body, prompt: str, server: Server) -> ToolCall | None:
    tools, choice = body.get("tools"), body.get("tool_choice", "auto")
    if not isinstance(tools, list) or not tools or choice == "none":
        return None
    named = (
        choice["function"].get("name") if isinstance(choice, dict) and isinstance(choice.get("function"), dict) else ""
    )
    name, arguments = answers.tool_call(f"{named} {prompt}", tools, "broken-tool-calls" in server.environment.faults)
    forced = choice == "required" or isinstance(choice, dict)
    return ToolCall(name, arguments, structured=forced or server.args["tool_call_parser"] is not None)


def _role(message: object) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(role, str):
        raise BadRequest("messages: each needs a role")
    return role


def _content(message: object) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _count(value: object, name: str, least: int) -> int:
    if value is None:
        return least
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadRequest(f"{name} must be at least {least}, got {value}.")
    return value


def _temperature(value: object) -> float:
    if value is None:
        return 1.0
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise BadRequest(f"temperature must be non-negative, got {value}.")
    return float(value)


def _stops(value: object) -> tuple[str, ...]:
    words: Sequence[object] = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(word for word in words if isinstance(word, str) and word)
