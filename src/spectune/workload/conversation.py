"""One record of a conversation file -> one prompt, in each of the forms that are about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from spectune.domain.workload import Message, Prompt
from spectune.workload.problems import BadRecord

DEFAULT_MAX_TOKENS = 256
EXPECTED = 'Each entry must be a JSON object with "messages", "prompt" or "conversations".'

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_SHAREGPT_ROLES = {
    "human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant", "assistant": "assistant",
    "bot": "assistant", "system": "system",
}  # fmt: skip
_CAPS = ("max_tokens", "max_completion_tokens", "output_tokens")
_SENT = frozenset(
    {"tools", "tool_choice", "parallel_tool_calls", "response_format", "stop", "chat_template_kwargs",
     "reasoning_effort"}
)  # fmt: skip
_SENT_OF_MESSAGE = frozenset({"name", "tool_calls", "tool_call_id", "reasoning_content", "refusal"})
_UNDERSTOOD = frozenset(
    {"messages", "conversations", "prompt", "completion", "id", "custom_id", "domain", *_CAPS}
)  # fmt: skip


@dataclass(slots=True)
class Left:
    """What was left out of good entries, over a whole file.

    Attributes:
        fields: names of fields that are not sent to the server.
        openings: conversations that began with an answer, which was dropped.
    """

    fields: set[str] = field(default_factory=set)
    openings: int = 0


def decoded(record: bytes) -> dict[str, Any]:
    """The JSON object of a record; of a line in OpenAI's batch form its body, named by its custom_id.

    Raises:
        BadRecord: when it is none.
    """
    try:
        entry = orjson.loads(record)
    except orjson.JSONDecodeError as error:
        raise BadRecord("not JSON") from error
    if not isinstance(entry, dict):
        raise BadRecord("not a JSON object")
    body = entry.get("body")
    if "custom_id" in entry and isinstance(body, dict):
        return {**body, "id": entry["custom_id"]}
    return entry


def to_prompt(entry: Mapping[str, Any], name: str, cap: int | None, left: Left) -> Prompt:
    """The prompt that asks for the last answer of a conversation.

    Args:
        entry: see `decoded`.
        name: id where the entry has none.
        cap: upper bound on the entry's own cap on the answer.
        left: hears of what is not sent.

    Raises:
        BadRecord: when it can't be sent; the text says why.
    """
    messages, dropped = _messages(entry)
    asked = _cap(entry)
    extra = {key: value for key, value in entry.items() if key in _SENT and value is not None}
    if "tools" in extra:
        _check_list(extra, "tools")
    left.openings += dropped
    left.fields.update(key for key in entry if key not in _SENT and key not in _UNDERSTOOD)
    if "messages" in entry:
        left.fields.update(f"messages[].{key}" for m in entry["messages"] for key in m if not _known_of_message(key))
    max_tokens = asked if cap is None else min(asked, cap)
    return Prompt(_word(entry, "id", name), _word(entry, "domain", "all"), messages, max_tokens, extra=extra)


def _messages(entry: Mapping[str, Any]) -> tuple[tuple[Message, ...], bool]:
    """The conversation up to its last question, and whether an answer before the first question was dropped."""
    opened_by_answer = False
    if "messages" in entry:
        messages = _each(entry["messages"], "messages", _openai_message)
    elif "conversations" in entry:
        messages = _each(entry["conversations"], "conversations", _sharegpt_message)
        first = next((place for place, m in enumerate(messages) if m.role != "system"), len(messages))
        while first < len(messages) and messages[first].role == "assistant":
            del messages[first]
            opened_by_answer = True
    elif "prompt" in entry:
        prompt = entry["prompt"]
        if isinstance(prompt, list):
            messages = _each(prompt, "prompt", _openai_message)
        else:
            messages = [Message("user", _text(prompt, "prompt"))]
    else:
        raise BadRecord('none of "messages", "prompt" and "conversations"')
    while messages and messages[-1].role == "assistant":
        messages.pop()
    if not messages:
        raise BadRecord("no question")
    if messages[-1].role not in {"user", "tool"}:
        raise BadRecord(f"ends with a {messages[-1].role} message, so that there is nothing to answer")
    return tuple(messages), opened_by_answer


def _each(items: Any, key: str, read: Callable[[Mapping[str, Any]], Message]) -> list[Message]:
    if not isinstance(items, list):
        raise BadRecord(f"{key} is not a list")
    messages = []
    for place, item in enumerate(items, start=1):
        if not isinstance(item, dict):
            raise BadRecord(f"{key} {place} is not an object")
        try:
            messages.append(read(item))
        except BadRecord as bad:
            raise BadRecord(f"{key} {place}: {bad}") from None
    return messages


def _openai_message(item: Mapping[str, Any]) -> Message:
    role = item.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise BadRecord(f"role {role!r}; there are {', '.join(sorted(_ROLES))}")
    extra = {key: value for key, value in item.items() if key in _SENT_OF_MESSAGE and value is not None}
    content = item.get("content")
    if role == "assistant" and extra.get("tool_calls"):
        _check_list(extra, "tool_calls")
        return Message(role, "" if content is None else _text(content, "content", empty=True), extra)
    if role == "tool":
        if not isinstance(extra.get("tool_call_id"), str):
            raise BadRecord("a tool message without tool_call_id")
        return Message(role, _text(content, "content", empty=True), extra)
    return Message(role, _text(content, "content"), extra)


def _sharegpt_message(item: Mapping[str, Any]) -> Message:
    who = item.get("from")
    if not isinstance(who, str) or who not in _SHAREGPT_ROLES:
        raise BadRecord(f"from {who!r}; there are {', '.join(_SHAREGPT_ROLES)}")
    return Message(_SHAREGPT_ROLES[who], _text(item.get("value"), "value"))


def _text(value: Any, key: str, empty: bool = False) -> str:
    """Text, also where it comes as a list of text parts."""
    if isinstance(value, list):
        for part in value:
            kind = part.get("type") if isinstance(part, dict) else None
            if kind != "text" or not isinstance(part.get("text"), str):
                raise BadRecord(f"{key} has a part that is not text" + (f": {kind}" if kind != "text" else ""))
        value = "\n".join(part["text"] for part in value)
    if not isinstance(value, str):
        raise BadRecord(f"{key} is not text")
    if not value and not empty:
        raise BadRecord(f"{key} is empty")
    return value


def _check_list(fields: Mapping[str, Any], key: str) -> None:
    value = fields[key]
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BadRecord(f"{key} is not a list of objects")


def _word(entry: Mapping[str, Any], key: str, default: str) -> str:
    value = entry.get(key)
    return default if value is None or value == "" else str(value)


def _cap(entry: Mapping[str, Any]) -> int:
    for key in _CAPS:
        value = entry.get(key)
        if value is None:
            continue
        try:
            cap = int(value)
        except (TypeError, ValueError, OverflowError):
            raise BadRecord(f"{key} is not a number") from None
        if cap < 1:
            raise BadRecord(f"{key} is {cap}; an answer has at least one token")
        return cap
    return DEFAULT_MAX_TOKENS


def _known_of_message(key: str) -> bool:
    return key in _SENT_OF_MESSAGE or key in {"role", "content"}
