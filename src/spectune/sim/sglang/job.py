"""One request inside the engine."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spectune.sim.sglang.answers import Answer


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request asks for.

    Attributes:
        tokens: of the prompt.
        domain, looping: which acceptance applies.
        end: index of the end token; None where the answer may not end by itself.
        limit: most tokens of output.
        internal: of the engine itself (warm-up, health): not counted, and no fault hits it.
    """

    tokens: Sequence[str]
    answer: Answer
    domain: str
    temperature: float
    looping: bool
    limit: int
    end: int | None
    stop: tuple[str, ...] = ()
    internal: bool = False


@dataclass(eq=False, slots=True)
class Job:
    """A request's state; times in seconds of the scheduler's clock.

    Attributes:
        pieces: text of the tokens so far, the end token being an empty one.
        reason: why it ended ("stop", "length", "abort"); None while it lives.
        matched: the stop string that ended it.
        histogram: verify steps by accepted drafts.
        wake: set when there is something new to send.
    """

    wanted: Wanted
    received: float
    rid: str = field(default_factory=lambda: uuid.uuid4().hex)
    pieces: list[str] = field(default_factory=list)
    reason: str | None = None
    matched: str | None = None
    cached: int = 0
    retracted: int = 0
    verified: int = 0
    accepted: int = 0
    proposed: int = 0
    histogram: list[int] = field(default_factory=list)
    scheduled: float | None = None
    first: float | None = None
    finished: float | None = None
    chances: tuple[object, Sequence[float]] | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def held(self) -> int:
        """KV tokens it takes."""
        return len(self.wanted.tokens) + len(self.pieces)

    def room(self) -> int:
        """Tokens that it may still get."""
        wanted = self.wanted
        most = wanted.limit if wanted.end is None else min(wanted.limit, wanted.end + 1)
        return max(0, most - len(self.pieces))

    def take(self, pieces: Sequence[str]) -> None:
        """Add tokens, no more than `room`; ends the request where they reach an end."""
        wanted = self.wanted
        for piece in pieces:
            ends = wanted.end is not None and len(self.pieces) >= wanted.end
            self.pieces.append("" if ends else piece)
            if ends:
                self.reason = "stop"
                break
            if wanted.stop and (found := self._stopped()):
                self.reason, self.matched = "stop", found
                break
        if self.reason is None and len(self.pieces) >= wanted.limit:
            self.reason = "length"
        self.wake.set()

    def end(self, reason: str) -> None:
        """End it from outside."""
        if self.reason is None:
            self.reason = reason
        self.wake.set()

    def count(self, proposed: int, emitted: int) -> None:
        """Note one verify step that yielded so many tokens."""
        accepted = emitted - 1
        self.verified += 1
        self.proposed += proposed
        self.accepted += accepted
        self.histogram.extend([0] * (accepted + 1 - len(self.histogram)))
        self.histogram[accepted] += 1

    def text(self, start: int, end: int) -> str:
        """Text of tokens start..end, cut before a stop string."""
        text = "".join(self.pieces[start:end])
        if self.matched is None or end < len(self.pieces):
            return text
        whole = "".join(self.pieces)
        cut = whole.find(self.matched)
        before = len("".join(self.pieces[:start]))
        return whole[before:cut] if cut > before else ""

    def _stopped(self) -> str | None:
        tail = "".join(self.pieces[-64:])
        return next((word for word in self.wanted.stop if word and word in tail), None)

    def finish_reason(self) -> Mapping[str, object] | None:
        """As the engine's own endpoint tells it."""
        match self.reason:
            case None:
                return None
            case "length":
                return {"type": "length", "length": len(self.pieces)}
            case "abort":
                return {"type": "abort", "message": "Abort in waiting or running queue"}
            case _:
                return {"type": "stop", "matched": self.matched if self.matched is not None else 2}
