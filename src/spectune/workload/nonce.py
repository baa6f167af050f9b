"""A nonce in front of every prompt, for servers whose prefix cache may know the prompts from an earlier run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from spectune.domain.ports import PromptSource
from spectune.domain.workload import Message, Prompt, WorkloadInfo


class WithNonce:
    """Deals another source's prompts with a line in front of the first message that no earlier run has sent."""

    def __init__(self, source: PromptSource, nonce: str) -> None:
        self._source = source
        self._nonce = nonce

    @property
    def info(self) -> WorkloadInfo:
        note = "each prompt begins with a nonce, so that no prefix cache knows it"
        return replace(self._source.info, notes=(*self._source.info.notes, note))

    def deal(self, lane: int, lanes: int) -> Iterator[Prompt]:
        for prompt in self._source.deal(lane, lanes):
            first, *rest = prompt.messages
            marked = Message(first.role, f"[{self._nonce}-{prompt.id}]\n{first.content}")
            yield replace(prompt, messages=(marked, *rest))
