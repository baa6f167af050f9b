"""The workload that flatters: answers that can be copied from the prompt, at a fixed length, asked again and again.

Hand-run comparisons are often made like this, at temperature 0. It is here so that their numbers can be reproduced and
set against a real workload, never to choose a setting by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import count

from spectune.domain.workload import Message, Prompt, WorkloadInfo
from spectune.workload.dealing import check_lane

DOMAIN = "repetitive"
_DEFAULT_MAX_TOKENS = 256
_COPIES = 24

_LINES = (
    "The quick brown fox jumps over the lazy dog near the bank of the river.",
    "2026-01-15T08:30:00Z INFO request finished status=200 path=/api/items duration_ms=12",
    '{"id": 1001, "name": "sample item", "price": 9.99, "in_stock": true}',
    "    total = total + items[index].price * items[index].count",
    "All work and no play makes Jack a dull boy, and a dull boy makes no play.",
    "| 2026 | north | 1,204 | 3.7 % | unchanged |",
    '<li class="entry"><a href="/page/7">Page 7</a></li>',
    "assert result.status == Status.DONE and result.errors == []",
)


class RepetitiveSource:
    """Deals the same few prompts for ever; see domain.ports.PromptSource. Each time has an id of its own."""

    def __init__(self, max_tokens: int | None) -> None:
        self._cap = max_tokens or _DEFAULT_MAX_TOKENS
        self._texts = tuple(_text(line) for line in _LINES)
        sha256 = hashlib.sha256(repr((self._texts, self._cap)).encode()).hexdigest()
        notes = (
            "FLATTERS SPECULATION: the same repetitive prompts again and again, which no user's traffic is like",
            "fixed-length answers (ignore_eos): each ends exactly at its cap, which flatters speculation",
            "meant for temperature 0, to reproduce figures that were made so",
        )
        self.info = WorkloadInfo("repetitive", sha256, len(self._texts), {DOMAIN: len(self._texts)}, notes)

    def deal(self, lane: int, lanes: int) -> Iterator[Prompt]:
        check_lane(lane, lanes)
        return map(self._prompt, count(lane, lanes))

    def _prompt(self, index: int) -> Prompt:
        turn, place = divmod(index, len(self._texts))
        messages = (Message("user", self._texts[place]),)
        return Prompt(f"repetitive-{place + 1}/{turn}", DOMAIN, messages, self._cap, fixed_length=True)


def repetitive(max_tokens: int | None = None) -> RepetitiveSource:
    """The repetitive prompts.

    Args:
        max_tokens: length of every answer; 256 where it is None.
    """
    return RepetitiveSource(max_tokens)


def _text(line: str) -> str:
    copies = "\n".join([line] * _COPIES)
    return f"Repeat the following line over and over, without any comment, until you are stopped.\n\n{copies}"
