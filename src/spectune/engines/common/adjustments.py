"""What a server says it has changed by itself. Each engine has a table of its sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from spectune.domain.deployment import Adjustment, Meaning
from spectune.engines.common.texts import filled


@dataclass(frozen=True, slots=True)
class Sentence:
    """One way in which a server announces a change.

    Attributes:
        name: stable key.
        pattern: found anywhere in a log message.
        meaning: what it does to the comparison.
        because, advice: for people; {1}, {2} stand for the groups of the pattern.
    """

    name: str
    pattern: re.Pattern[str]
    meaning: Meaning
    because: str
    advice: str = ""


def sentence(name: str, pattern: str, meaning: Meaning, because: str, advice: str = "") -> Sentence:
    return Sentence(name, re.compile(pattern), meaning, because, advice)


def adjustment(message: str, sentences: Iterable[Sentence]) -> Adjustment | None:
    """The change that a log message announces, by the first sentence that is found in it; None where none is."""
    for one in sentences:
        if match := one.pattern.search(message):
            groups = match.groups("")
            return Adjustment(one.name, message, one.meaning, filled(one.because, groups), filled(one.advice, groups))
    return None
