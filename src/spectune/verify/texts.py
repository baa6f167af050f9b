"""Measures of generated text: how far two answers agree, and whether one is degenerate. Pure text, no model."""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum

LONGEST = 1500
"""Words compared for similarity; the cost grows with the square of it."""
LOOP_WORDS = 24
"""A tail of at least so many words that repeats itself is a loop."""
LOOP_PERIOD = 16
"""Longest repeated phrase looked for, in words."""
LOOP_BYTES = 500
"""Shorter texts are not judged by compression, whose fixed cost hides what it finds."""
LOOP_COMPRESSION = 0.2
"""Compressed size / size. Prose lies near 0.5, code near 0.4, a phrase said over and over below 0.1."""
GARBAGE_SHARE = 0.05
"""Share of characters that no text has: replacement, control, unassigned, private use."""
TAIL = 200
"""Characters at the end that are judged on their own, so that a good start does not hide a bad end."""
CUT_WORDS = 3
"""Words by which two answers that reach the token limit may differ in length."""

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+|[^\w\s]")


class Flaw(StrEnum):
    """What is wrong with a text by itself."""

    EMPTY = "empty"
    GARBAGE = "garbage characters"
    LOOP = "a loop"


def words(text: str) -> list[str]:
    """Words, single punctuation marks, and single characters of scripts without spaces."""
    return _WORD.findall(text)


def flaw(text: str) -> Flaw | None:
    """The gravest flaw of a text, None where it has none."""
    if not text.strip():
        return Flaw.EMPTY
    if max(_odd_share(text), _odd_share(text[-TAIL:])) > GARBAGE_SHARE:
        return Flaw.GARBAGE
    return Flaw.LOOP if _repeats(words(text)) or compression(text) < LOOP_COMPRESSION else None


def _odd_share(text: str) -> float:
    """Share of characters that no text has. One replacement at the very end is a character cut by the token limit."""
    body = text.removesuffix("\N{REPLACEMENT CHARACTER}")
    odd = sum(ch == "\N{REPLACEMENT CHARACTER}" or _is_odd(ch) for ch in body)
    return odd / len(body) if body else 0.0


def _is_odd(ch: str) -> bool:
    return ch not in "\n\r\t" and unicodedata.category(ch) in {"Cc", "Cn", "Co", "Cs"}


def compression(text: str) -> float:
    """Compressed size / size in UTF-8; 1.0 for texts too short to tell."""
    data = text.encode("utf-8", "surrogatepass")
    return len(zlib.compress(data, 6)) / len(data) if len(data) >= LOOP_BYTES else 1.0


def _repeats(tokens: Sequence[str]) -> bool:
    """Whether the last words say one phrase at least four times."""
    for period in range(1, LOOP_PERIOD + 1):
        tail = tokens[-max(LOOP_WORDS, 4 * period) :]
        if len(tail) < max(LOOP_WORDS, 4 * period):
            return False
        if all(a == b for a, b in zip(tail, tail[period:], strict=False)):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far a text agrees with a reference.

    Attributes:
        equal: the same text, but for up to three words by which one of two texts goes on where the other was cut.
        prefix_chars: length of the common start, which is also the position of the first difference.
        prefix_words: whole words of the common start.
        prefix_share: common start / longer text, 1 for two empty texts.
        similarity: matching words / all words (0 to 1), wherever they stand.
        length_ratio: words of the text / words of the reference; inf where only the reference is empty.
        cut: the text is a mere start of the reference.
        goes_on: the reference is a mere start of the text.
    """

    equal: bool
    prefix_chars: int
    prefix_words: int
    prefix_share: float
    similarity: float
    length_ratio: float
    cut: bool
    goes_on: bool


def agreement(reference: str, text: str) -> Agreement:
    """Compares a text with a reference."""
    shared = _common(reference, text)
    longer = max(len(reference), len(text))
    ours, theirs = words(text), words(reference)
    extra = len(words(reference[shared:])) + len(words(text[shared:]))
    is_start = shared == min(len(reference), len(text))
    equal = reference == text or (is_start and bool(shared) and extra <= CUT_WORDS)
    matcher = SequenceMatcher(None, theirs[:LONGEST], ours[:LONGEST], autojunk=False)
    return Agreement(
        equal=equal,
        prefix_chars=shared,
        prefix_words=len(words(reference[:shared])),
        prefix_share=shared / longer if longer else 1.0,
        similarity=1.0 if reference == text else matcher.ratio(),
        length_ratio=len(ours) / len(theirs) if theirs else (float("inf") if ours else 1.0),
        cut=is_start and not equal and len(text) < len(reference),
        goes_on=is_start and not equal and len(text) > len(reference),
    )


def _common(a: str, b: str) -> int:
    """Length of the common start."""
    shorter = min(len(a), len(b))
    return next((i for i in range(shorter) if a[i] != b[i]), shorter)
