"""The prompts whose greedy answers are compared: domains of the workload, JSON, tool calls and long outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any

import yaml

from spectune.domain.workload import Message, Prompt

_ROUND = ("shared", "shared", "json", "shared", "tools", "shared", "long", "shared")
"""Kinds in the order of asking, over and over, so that any first part of the set has something of each."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is asked.

    Attributes:
        prompts: of all kinds together.
        short, structured, long: most tokens of an answer of the workload's prompts, of JSON and tool calls, and of the
            long outputs.
    """

    prompts: int
    short: int
    structured: int
    long: int


FULL = Size(64, 32, 96, 320)
"""For machines on which a server's start takes longer than this: some 5000 tokens at each number of users."""
SMALL = Size(8, 12, 28, 24)
"""For models on a CPU: 140 tokens at most at each number of users, some 6 seconds for both at 50 tok/s."""


def probe_set(size: Size, shared: Iterable[Prompt]) -> tuple[Prompt, ...]:
    """The probes, the same for the same arguments.

    Args:
        shared: prompts of the workload's domains that are never measured; more than enough of them.
    """
    kinds: Mapping[str, Iterator[Prompt]] = {
        "shared": (replace(prompt, max_tokens=min(prompt.max_tokens, size.short)) for prompt in shared),
        "json": (_prompt("json", entry, size.structured) for entry in _own()["json"]),
        "tools": (_prompt("tools", entry, size.structured, _tool(entry)) for entry in _own()["tools"]),
        "long": (_prompt("long", entry, size.long) for entry in _own()["long"]),
    }
    return tuple(islice(_in_turns(kinds), size.prompts))


def _in_turns(kinds: Mapping[str, Iterator[Prompt]]) -> Iterator[Prompt]:
    """Own prompts end at some time; those of the workload go on, and end the set."""
    while True:
        for kind in _ROUND:
            prompt = next(kinds[kind], None)
            if prompt is not None:
                yield prompt
            elif kind == "shared":
                return


def _prompt(kind: str, entry: Mapping[str, Any], cap: int, extra: Mapping[str, Any] | None = None) -> Prompt:
    message = Message("user", entry["text"])
    return Prompt(f"{kind}/{entry['id']}", kind, (message,), cap, extra=extra or {})


def _tool(entry: Mapping[str, Any]) -> dict[str, Any]:
    """One function in the form of the chat API, all of its parameters required."""
    properties = {name: {"type": kind} for name, kind in entry["parameters"].items()}
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    function = {"name": entry["tool"], "description": entry["about"], "parameters": parameters}
    return {"tools": [{"type": "function", "function": function}]}


@cache
def _own() -> dict[str, list[dict[str, Any]]]:
    text = resources.files("spectune.verify").joinpath("probes.yaml").read_text(encoding="utf-8")
    document: dict[str, list[dict[str, Any]]] = yaml.safe_load(text)
    return document
