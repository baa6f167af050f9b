"""The prefix cache: prompts seen before are not computed again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

BLOCK = 8
"""Tokens that are found or missed together; the engine's own tree works by single tokens."""


class PrefixCache:
    """Blocks of prompts by the hash of all text up to their end, least recently used ones dropped first."""

    def __init__(self, capacity_tokens: int) -> None:
        self._most = max(1, capacity_tokens // BLOCK)
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        """Tokens held."""
        return len(self._blocks) * BLOCK

    def match(self, tokens: Sequence[str]) -> int:
        """Leading tokens that are held; never all of them, since the last one has to be computed."""
        found = 0
        for key in _keys(tokens):
            if key not in self._blocks:
                break
            self._blocks.move_to_end(key)
            found += BLOCK
        return min(found, max(0, len(tokens) - 1))

    def insert(self, tokens: Sequence[str]) -> None:
        """Hold a prompt."""
        for key in _keys(tokens):
            self._blocks[key] = None
            self._blocks.move_to_end(key)
        while len(self._blocks) > self._most:
            self._blocks.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._blocks.clear()


def _keys(tokens: Sequence[str]) -> Iterator[int]:
    key = 0
    for start in range(0, len(tokens) - BLOCK + 1, BLOCK):
        key = hash((key, *tokens[start : start + BLOCK]))
        yield key
