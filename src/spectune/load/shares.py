"""Prompts for several processes: each gets its own, and all turns of a session go to the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from spectune.domain.workload import Prompt
from spectune.load.arrivals import Due


class Shares:
    """Deals prompts to whichever worker asks; arrivals of a schedule are dealt in turns, so that all stay busy."""

    def __init__(self, prompts: Iterator[Prompt], workers: int, at_once: int, due: Due | None = None) -> None:
        """Takes how many prompts a worker gets at once, and the schedule of an open loop."""
        self._prompts = prompts
        self._at_once = at_once
        self._due = due
        self._waiting: list[deque[Prompt]] = [deque() for _ in range(workers)]
        self._owners: dict[str, int] = {}
        self._dealt = 0
        self._ended = False

    def more(self, worker: int) -> tuple[list[Prompt], bool]:
        """The next prompts of a worker, and whether they are its last. In an open loop due_s of a prompt that begins
        something is when it is to leave, seconds from the start."""
        own = self._waiting[worker]
        while len(own) < self._at_once and not self._ended:
            prompt = next(self._prompts, None)
            if prompt is None:
                self._ended = True
            else:
                self._deal(prompt, worker)
        given = [own.popleft() for _ in range(min(len(own), self._at_once))]
        return given, self._ended and not own

    def _deal(self, prompt: Prompt, asking: int) -> None:
        owner = self._owners.get(prompt.session) if prompt.session else None
        if owner is None:
            owner = asking if self._due is None else self._dealt % len(self._waiting)
            self._dealt += 1
            if prompt.session:
                self._owners[prompt.session] = owner
            if self._due:
                prompt = replace(prompt, due_s=self._due(prompt))
        self._waiting[owner].append(prompt)
