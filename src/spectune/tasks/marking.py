"""Whether an answer is right: pure text."""

from __future__ import annotations

import re
from collections.abc import Callable

LONGEST_CODE = 20_000
_NUMBER = re.compile(r"-?\d[\d,']*(?:\.\d+)?")
_BLOCK = re.compile(r"```[ \t]*(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)


def is_number(answer: str, wanted: float) -> bool:
    """Whether the last number of an answer is the wanted one."""
    found = _NUMBER.findall(_said(answer))
    return bool(found) and abs(float(re.sub(r"[,']", "", found[-1])) - wanted) < 1e-9 * max(1.0, abs(wanted))


def is_text(answer: str, wanted: str) -> bool:
    """Whether the last line of an answer says the wanted words, with no more than a short sentence around them."""
    lines = [line for line in _said(answer).splitlines() if line.strip()]
    if not lines:
        return False
    said, words = _plain(lines[-1]), _plain(wanted)
    return len(said) <= len(words) + 60 and re.search(rf"(?<!\w){re.escape(words)}(?!\w)", said) is not None


def is_code(answer: str, tests: str, passes: Callable[[str, str], bool]) -> bool:
    """Whether the Python in an answer stands some tests; `passes` runs them."""
    said = _said(answer)
    blocks = _BLOCK.findall(said)
    code = blocks[-1] if blocks else said
    return bool(code.strip()) and len(code) <= LONGEST_CODE and passes(code, tests)


def _said(answer: str) -> str:
    return _THOUGHT.sub("", answer).strip()


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[*_`\"'.!]", " ", text).casefold().split())
