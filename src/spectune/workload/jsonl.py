"""Prompts from a file of the user's: JSON lines, or one JSON array, in the forms that are about."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from spectune.domain.errors import InputError
from spectune.domain.workload import Message, Prompt, WorkloadInfo
from spectune.workload.dealing import every_nth, take_turns

_DEFAULT_MAX_TOKENS = 256
_SHOWN_BAD_LINES = 10
_PLURAL = {"line": "lines", "entry": "entries"}
_SHAREGPT_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}


class JsonlSource:
    """Deals the lines of a file, each once; see domain.ports.PromptSource."""

    def __init__(self, name: str, sha256: str, prompts: Sequence[Prompt], notes: tuple[str, ...]) -> None:
        self._by_domain: dict[str, list[Prompt]] = {}
        for prompt in prompts:
            self._by_domain.setdefault(prompt.domain, []).append(prompt)
        counts = {domain: len(items) for domain, items in self._by_domain.items()}
        self.info = WorkloadInfo(name, sha256, len(prompts), counts, notes)

    def deal(self, lane: int, lanes: int) -> Iterator[Prompt]:
        if not 0 <= lane < lanes:
            raise ValueError(f"lane {lane} of {lanes}")
        return take_turns({domain: every_nth(items, lane, lanes) for domain, items in self._by_domain.items()})


def jsonl_source(path: Path, domains: Sequence[str] = (), max_tokens: int | None = None) -> JsonlSource:
    """Reads a file of conversations, one a line or all in one JSON array. Each is an object with one of

    - "messages": [{"role": ..., "content": ...}], as OpenAI's API takes them;
    - "prompt": "...", as vLLM's custom data sets have it;
    - "conversations": [{"from": "human", "value": ...}], as ShareGPT has it;

    and, if wanted, "id", "domain" and "max_tokens" (or "output_tokens"). Answers at the end of a conversation are left
    out: they are for the server to give. Bad entries are counted and named in the notes; repeated prompts are dealt
    once.

    Raises:
        InputError: when the file can't be read or holds no usable entry.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"workload.source: cannot read {path}: {error.strerror}") from error
    prompts: dict[tuple[Message, ...], Prompt] = {}
    bad: list[int] = []
    repeated = 0
    unit, entries = _entries(data)
    for number, entry in entries:
        prompt = _prompt(entry, f"{unit}-{number}", max_tokens)
        if prompt is None:
            bad.append(number)
        elif prompt.messages in prompts:
            repeated += 1
        elif not domains or prompt.domain in domains:
            prompts[prompt.messages] = prompt
    if not prompts:
        raise InputError(
            f"workload.source: {path} holds no usable prompt"
            + (f" (bad {_PLURAL[unit]}: {_some(bad)})" if bad else ""),
            'Each entry must be a JSON object with "messages", "prompt" or "conversations".',
        )
    notes = []
    if bad:
        notes.append(f"{len(bad)} bad {_PLURAL[unit]} skipped: {_some(bad)}")
    if repeated:
        notes.append(f"{repeated} repeated prompts dealt once")
    sha256 = hashlib.sha256(data + repr((tuple(domains), max_tokens)).encode()).hexdigest()
    return JsonlSource(str(path), sha256, _with_unique_ids(prompts.values()), tuple(notes))


def _entries(data: bytes) -> tuple[str, Iterator[tuple[int, Any]]]:
    """What entries are called, and each with its number from 1; None stands for one that is not JSON."""
    if data.lstrip()[:1] == b"[":
        with suppress(orjson.JSONDecodeError):
            array = orjson.loads(data)
            return "entry", enumerate(array, start=1)
    return "line", ((number, _decoded(line)) for number, line in enumerate(data.splitlines(), start=1) if line.strip())


def _decoded(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _prompt(entry: Any, name: str, cap: int | None) -> Prompt | None:
    try:
        messages = _messages(entry)
        asked = int(entry.get("max_tokens", entry.get("output_tokens", _DEFAULT_MAX_TOKENS)))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    if not messages or asked < 1:
        return None
    max_tokens = asked if cap is None else min(asked, cap)
    return Prompt(str(entry.get("id", name)), str(entry.get("domain", "all")), messages, max_tokens)


def _messages(entry: dict[str, Any]) -> tuple[Message, ...]:
    if "messages" in entry:
        messages = [Message(str(m["role"]), m["content"]) for m in entry["messages"]]
    elif "conversations" in entry:
        messages = [Message(_SHAREGPT_ROLES[m["from"]], m["value"]) for m in entry["conversations"]]
    else:
        messages = [Message("user", entry["prompt"])]
    while messages and messages[-1].role == "assistant":
        messages.pop()
    if not all(isinstance(message.content, str) and message.content for message in messages):
        raise ValueError("a message without text")
    return tuple(messages)


def _with_unique_ids(prompts: Iterable[Prompt]) -> list[Prompt]:
    """Ids pair the arms of a comparison, so that two prompts must never share one."""
    listed = list(prompts)
    seen = Counter(prompt.id for prompt in listed)
    return [
        prompt
        if seen[prompt.id] == 1
        else Prompt(f"{prompt.id}#{index}", prompt.domain, prompt.messages, prompt.max_tokens)
        for index, prompt in enumerate(listed)
    ]


def _some(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_SHOWN_BAD_LINES]))
    return shown + (", ..." if len(numbers) > _SHOWN_BAD_LINES else "")
