"""Faults on demand: what each is called and takes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from spectune.domain.errors import InputError

KNOWN: Mapping[str, tuple[str, float | None]] = {
    "wrong-settings": ("the server runs another depth than asked, and the read-back shows it; value: the depth", 0),
    "silent-limit-48": ("at most 48 requests run, without a warning; value: another limit", 48),
    "die-at-request": ("the scheduler dies at the n-th request", None),
    "hang-after-health": ("health is green, generation never answers", 0),
    "hang-at-request": ("from the n-th request on nothing is answered", None),
    "garbage-when-concurrent": ("text turns to garbage while more than one request runs", 0),
    "garbage-answers": ("all text is garbage", 0),
    "loops": ("text says one phrase over and over", 0),
    "truncated-answers": ("answers stop after a few tokens; value: how many", 5),
    "temperature-ignored": ("the likeliest token is taken whatever temperature was asked; value: % of requests", 100),
    "broken-tool-calls": ("the arguments of tool calls are not JSON", 0),
    "orphan-child": ("a child in a session of its own keeps the port after the server died; value: seconds", 600),
    "orphan-gpu": ("a child in a session of its own keeps GPU memory after the server died; value: seconds", 600),
    "slow-drift": ("steps get slower by so many percent a minute", None),
    "oom-above-depth": ("out of memory at start above this depth", None),
    "crash-at-start": ("the scheduler fails while loading", 0),
    "crash-after": ("the scheduler dies so many seconds after it got ready", None),
    "restart-needed-sigkill": ("SIGTERM is ignored", 0),
    "wrong-model": ("another model is served than asked", 0),
    "draft-not-loaded": ("the draft has random weights: nothing it drafts is accepted", 0),
    "dead-head": ("the draft head hardly ever agrees with the model", 0),
    "adaptive-fallback": ("adaptive speculation falls back to static, with its warning", 0),
    "graph-truncated": ("CUDA graphs cover only so many requests", 8),
    "noisy-neighbour": ("for a third of the time steps take half as long again", 0),
    "slow-warmup": ("the port opens, and health stays red for so many seconds", None),
    "topk-ignored": ("drafts are a chain whatever topk was asked", 0),
    "never-ready": ("health stays red for ever", 0),
}
"""Name -> what it does, and its value where none is given; None: a value is needed."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults that are on, with their values."""

    on: Mapping[str, float]

    def __contains__(self, name: str) -> bool:
        return name in self.on

    def get(self, name: str) -> float | None:
        """Its value; None where it is off."""
        return self.on.get(name)


def parse(text: str) -> Faults:
    """Faults from "name" and "name=value", comma-separated.

    Raises:
        InputError: an unknown name, or a value that is missing or no number.
    """
    on: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, given, value = part.partition("=")
        if name not in KNOWN:
            near = difflib.get_close_matches(name, KNOWN, n=1)
            advice = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(KNOWN)}"
            raise InputError(f"SPECTUNE_SIM_FAULTS: unknown fault {name!r}", advice)
        default = KNOWN[name][1]
        if not given:
            if default is None:
                raise InputError(f"SPECTUNE_SIM_FAULTS: {name} needs a value", f"Write {name}=<number>")
            on[name] = default
            continue
        try:
            on[name] = float(value)
        except ValueError as error:
            raise InputError(f"SPECTUNE_SIM_FAULTS: {name}={value} is no number", "Give a number") from error
    return Faults(on)
