"""Dealing prompts into lanes that share none, domains taking turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from spectune.domain.workload import Prompt


def take_turns(by_domain: Mapping[str, Iterator[Prompt]]) -> Iterator[Prompt]:
    """One prompt of each domain in turn; a domain that ran out is skipped. Ends when all have."""
    streams = dict(by_domain)
    while streams:
        for domain in list(streams):
            prompt = next(streams[domain], None)
            if prompt is None:
                del streams[domain]
            else:
                yield prompt


def every_nth(prompts: Sequence[Prompt], lane: int, lanes: int) -> Iterator[Prompt]:
    """Every `lanes`-th prompt, beginning with number `lane`."""
    yield from prompts[lane::lanes]


def rotation(items: int, lane: int, lanes: int) -> Iterator[tuple[int, int]]:
    """Visits (item, variant) pairs for one lane; lanes never share a pair.

    Each lane begins at another item, so that short lanes rarely touch the same item at all: variants of one item
    resemble each other, and an n-gram pool that outlives requests would profit from that.
    """
    start = lane * items // lanes
    for turn in count():
        for step in range(items):
            yield (start + step) % items, lane + turn * lanes
