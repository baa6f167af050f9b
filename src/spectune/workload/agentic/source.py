"""Deals agentic coding sessions: every prompt of a session holds all that came before it."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

import orjson
import yaml

from spectune.domain.workload import ENDLESS, Message, Prompt, WorkloadInfo
from spectune.workload.agentic.story import FEWEST_PROMPTS, Step, steps
from spectune.workload.agentic.workshop import make, skeletons
from spectune.workload.dealing import check_lane

DOMAIN = "agentic"
_DEFAULT_MAX_TOKENS = 512


class AgenticSource:
    """Deals whole sessions one after the other, for ever; see domain.ports.PromptSource.

    Args:
        seed: decides the sessions.
        max_tokens: cap on every answer.
        api_tools: send tools as the API has them, instead of as text that any server understands.
    """

    def __init__(self, seed: int, max_tokens: int | None, api_tools: bool) -> None:
        self._seed = seed
        self._cap = max_tokens or _DEFAULT_MAX_TOKENS
        self._api_tools = api_tools
        notes = (
            f"sessions of a coding agent over {len(skeletons())} code bases, made as they are needed",
            "every prompt of a session repeats the ones before it",
            "the agent's earlier turns are scripted, so that all candidates see the same prompts",
            "the server's own answers are timed and then dropped",
            "code bases of one language resemble each other, which drafters that remember earlier requests profit from",
        )
        name = "agentic:tools=api" if api_tools else "agentic"
        self.info = WorkloadInfo(name, self._hash(), ENDLESS, {DOMAIN: ENDLESS}, notes)

    def deal(self, lane: int, lanes: int) -> Iterator[Prompt]:
        check_lane(lane, lanes)
        return (prompt for index in range(lane, ENDLESS // FEWEST_PROMPTS, lanes) for prompt in self._session(index))

    def _session(self, index: int) -> list[Prompt]:
        rng = random.Random(f"agentic {self._seed} {index}")
        known = skeletons()
        shop = make(known[_shuffled(self._seed, index, len(known))], rng)
        session = f"agentic-{self._seed}-{index}"
        ticket = f"{shop.project.upper()}-{index + 1}"
        messages = [
            Message("system", _system(self._api_tools)),
            Message("user", f"Repository: {shop.project} ({shop.language}), ticket {ticket}\n\n{shop.task}"),
        ]
        taken = steps(shop, rng)
        prompts = []
        for number, step in enumerate([None, *taken]):
            if step is not None:
                messages += _turn(step, number, self._api_tools)
            prompts.append(
                Prompt(
                    id=f"{session}/{number + 1}",
                    domain=DOMAIN,
                    messages=tuple(messages),
                    max_tokens=self._cap,
                    session=session,
                    think_s=step.took_s if step is not None else 0.0,
                    extra={"tools": _api_tools()} if self._api_tools else {},
                )
            )
        return prompts

    def _hash(self) -> str:
        """Over the options and enough sessions that every skeleton and story is among them."""
        digest = hashlib.sha256(repr((self._seed, self._cap, self._api_tools)).encode())
        for index in range(2 * len(skeletons())):
            digest.update(repr(self._session(index)[-1]).encode())
        return digest.hexdigest()


def agentic(seed: int = 1, max_tokens: int | None = None, api_tools: bool = False) -> AgenticSource:
    """Coding sessions of 4 to 10 prompts that grow from about one to about six thousand tokens.

    Args:
        seed: decides the sessions.
        max_tokens: cap on every answer; 512 where it is None. Answers end by themselves.
        api_tools: send tools, calls and results as the API has them; many servers must be started with a flag for it.
    """
    return AgenticSource(seed, max_tokens, api_tools)


def _shuffled(seed: int, index: int, count: int) -> int:
    """Each skeleton once in every `count` sessions, in an order of its own each time."""
    turn, place = divmod(index, count)
    order = list(range(count))
    random.Random(f"skeletons {seed} {turn}").shuffle(order)
    return order[place]


def _turn(step: Step, number: int, api_tools: bool) -> tuple[Message, Message]:
    """The agent's call and the tool's result."""
    arguments = dict(step.arguments)
    if api_tools:
        call = {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": step.tool, "arguments": orjson.dumps(arguments).decode()},
        }
        return (
            Message("assistant", step.says, {"tool_calls": [call]}),
            Message("tool", step.result, {"tool_call_id": f"call_{number}"}),
        )
    call_text = orjson.dumps({"name": step.tool, "arguments": arguments}).decode()
    return (
        Message("assistant", f"{step.says}\n\n<tool_call>\n{call_text}\n</tool_call>"),
        Message("user", f'<tool_result name="{step.tool}">\n{step.result}\n</tool_result>'),
    )


@cache
def _tools() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = yaml.safe_load(_resource("tools.yaml"))
    return loaded


@cache
def _api_tools() -> list[dict[str, Any]]:
    return [{"type": "function", "function": tool} for tool in _tools()]


@cache
def _system(api_tools: bool) -> str:
    rules = _resource("prompt.md").strip()
    if api_tools:
        return rules
    tools = "\n".join(orjson.dumps(tool).decode() for tool in _tools())
    form = '<tool_call>\n{"name": "...", "arguments": {...}}\n</tool_call>'
    return f"{rules}\n\n## Tools\nCall one at the end of a message, in this form:\n\n{form}\n\n{tools}"


def _resource(name: str) -> str:
    return resources.files("spectune.workload.agentic").joinpath(name).read_text(encoding="utf-8")
