"""Dealing prompts into lanes that share none, domains taking turns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count

from spectune.domain.errors import InputError
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


def rotation(items: int, lane: int, lanes: int) -> Iterator[tuple[int, int]]:
    """Visits (item, variant) pairs for one lane; lanes never share a pair.

    Each lane begins at another item, so that short lanes rarely touch the same item at all: variants of one item
    resemble each other, and an n-gram pool that outlives requests would profit from that.
    """
    start = lane * items // lanes
    for turn in count():
        for step in range(items):
            yield (start + step) % items, lane + turn * lanes


def check_lane(lane: int, lanes: int) -> None:
    """Raises ValueError when there is no such lane."""
    if not 0 <= lane < lanes:
        raise ValueError(f"lane {lane} of {lanes}")


def check_domains(asked: Sequence[str], present: Collection[str]) -> None:
    """Raises InputError when the workload lacks a domain."""
    for domain in asked:
        if domain not in present:
            there = ", ".join(sorted(present))
            raise InputError(f"workload.domains: this workload has no domain {domain!r}", f"There are: {there}.")
