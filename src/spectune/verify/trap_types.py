"""What an entry of the trap registry holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trap:
    """One known way to be misled.

    Attributes:
        name: stable.
        engine: adapter name; "" where every engine has it.
        sign: regular expression, found anywhere in a line of the log; "" where no line tells.
        check: the check, adjustment or doubt by which it is caught.
        meaning: what really happens.
        advice: what to do; empty where harmless.
        source: public thread ("owner/repository#number"), or how it was observed.
        versions: of the engine that have it (">=0.5,<0.6"); "" is every version seen so far.
        harmless: a warning that changes neither speed nor answers.
    """

    name: str
    engine: str
    sign: str
    check: str
    meaning: str
    advice: str
    source: str
    versions: str = ""
    harmless: bool = False
