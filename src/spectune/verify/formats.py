"""Whether a text that should be read by a program still can be: JSON, tool calls, Python. Pure text, no model."""

from __future__ import annotations

import ast
import json
import re
import warnings
from enum import StrEnum

LONGEST = 20_000
"""Characters of code that are parsed at most."""
UNDER_WAY = 12
"""Lines at the end of a text that was cut off which may belong to one unfinished statement."""
_FENCED = re.compile(r"```[ \t]*(\w*)[^\n]*\n(.*?)```", re.DOTALL)
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


class Format(StrEnum):
    """What a program would read a text as."""

    JSON = "JSON"
    PYTHON = "Python"


def format_of(text: str) -> Format | None:
    """What the text is valid as; None where it is plain text, or broken.

    Read as JSON is the whole text, a fenced block or a tool call; a bare number or word does not count.
    """
    if any(_is_json(part) for part in (text, *_blocks(text, "json"), *_CALL.findall(text))):
        return Format.JSON
    code = _blocks(text, "python") + _blocks(text, "py")
    return Format.PYTHON if code and all(map(_is_python, code)) else None


def python_so_far(text: str) -> bool:
    """Whether a text that ends in the middle of a Python block is sound up to there: the blocks before it parse, and
    so do all its lines but the last of them (a statement under way, over several lines where it has brackets)."""
    closed, fence, rest = text.rpartition("```py")
    if not fence or "```" in rest:
        return False
    before = _blocks(closed, "python") + _blocks(closed, "py")
    lines = rest.partition("\n")[2][:LONGEST].splitlines()
    kept = range(len(lines), max(0, len(lines) - UNDER_WAY) - 1, -1)
    return all(map(_is_python, before)) and any(_is_python("\n".join(lines[:n])) or n == 0 for n in kept)


def _blocks(text: str, language: str) -> list[str]:
    return [body for told, body in _FENCED.findall(text) if told.lower() == language]


def _is_json(text: str) -> bool:
    if not text.strip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_python(code: str) -> bool:
    if not code.strip() or len(code) > LONGEST:
        return False
    try:
        with warnings.catch_warnings():
            # Code of a model may hold odd escapes, which are none of this program's warnings.
            warnings.simplefilter("ignore")
            ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
