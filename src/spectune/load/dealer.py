"""Who sends which prompt: sessions stay together and in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from spectune.domain.workload import Prompt


class Dealer:
    """Deals prompts to whoever is free, and the later turns of a session only to the one who has sent the earlier.

    A session is over when the next prompt at hand belongs to nobody who is still at it. Turns that come later than that
    are dealt as a session of their own, after the earlier ones all the same.
    """

    def __init__(self, prompts: Iterator[Prompt]) -> None:
        self._prompts = prompts
        self._ahead: Prompt | None = None
        self._later: dict[str, deque[Prompt]] = {}

    def take(self) -> Prompt | None:
        """A prompt that begins something; None when there are no more."""
        prompt = self._read_on()
        self._ahead = None
        if prompt and prompt.session:
            self._later[prompt.session] = deque()
        return prompt

    def follow(self, prompt: Prompt) -> Prompt | None:
        """The turn after this one, which has been answered; None where the session is over."""
        if not prompt.session or prompt.session not in self._later:
            return None
        later = self._later[prompt.session]
        if not later:
            self._read_on()
        if later:
            return later.popleft()
        del self._later[prompt.session]
        return None

    @property
    def waiting(self) -> int:
        """Later turns at hand whose earlier ones are still under way."""
        return sum(map(len, self._later.values()))

    def _read_on(self) -> Prompt | None:
        """Hands turns of open sessions to their owners, up to the next prompt that is nobody's, and returns that."""
        while self._ahead is None or self._ahead.session in self._later:
            if self._ahead is not None:
                self._later[self._ahead.session].append(self._ahead)
            self._ahead = next(self._prompts, None)
            if self._ahead is None:
                return None
        return self._ahead
