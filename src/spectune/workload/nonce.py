"""A nonce in front of every prompt, for servers whose prefix cache may know the prompts from an earlier run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from spectune.domain.ports import PromptSource
from spectune.domain.workload import Prompt, WorkloadInfo


class WithNonce:
    """Deals another source's prompts with a line in front of the first message that no earlier run has sent.

    Prefixes that prompts are meant to share stay shared: the prompts of a session get the same line, and so do all
    prompts of a trace.
    """

    def __init__(self, source: PromptSource, nonce: str) -> None:
        self._source = source
        self._nonce = nonce

    @property
    def info(self) -> WorkloadInfo:
        note = "each prompt begins with a nonce, so that no prefix cache knows it from an earlier run"
        return replace(self._source.info, notes=(*self._source.info.notes, note))

    def deal(self, lane: int, lanes: int) -> Iterator[Prompt]:
        for prompt in self._source.deal(lane, lanes):
            first, *rest = prompt.messages
            marked = replace(first, content=f"[{self._nonce}{_own(prompt)}]\n{first.content}")
            yield replace(prompt, messages=(marked, *rest))


def _own(prompt: Prompt) -> str:
    """What tells this prompt's line from those of the same run."""
    if prompt.due_s is not None:
        return ""
    return f"-{prompt.session or prompt.id}"
