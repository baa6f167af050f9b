"""The built-in set: sums, extraction, and small functions in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import TypedDict

import yaml

from spectune.domain.finding import Answer
from spectune.domain.tasks import TASK
from spectune.domain.workload import Message, Prompt
from spectune.tasks.marking import is_code, is_number, is_text
from spectune.tasks.sandbox import Sandbox

SHORT, CODE = 48, 256
"""Most tokens of an answer."""


class _Entry(TypedDict, total=False):
    id: str
    text: str
    number: float
    answer: str
    code: str


@dataclass(frozen=True, slots=True)
class BuiltinTasks:
    """The built-in tasks as an exam.

    Attributes:
        sandbox: runs code; without one, code is not asked for.
    """

    sandbox: Sandbox | None

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        asked = (entry for entry in _entries() if "code" not in entry or self.sandbox is not None)
        return tuple(
            Prompt(
                f"{TASK}{entry['id']}", "task", (Message("user", entry["text"]),), CODE if "code" in entry else SHORT
            )
            for entry in asked
        )

    def mark(self, answers: Sequence[Answer]) -> tuple[Answer, ...]:
        """The answers with scores: 1 right, 0 wrong; None where the request failed."""
        return tuple(
            answer if answer.error else replace(answer, score=float(self._is_right(answer))) for answer in answers
        )

    def _is_right(self, answer: Answer) -> bool:
        entry = next(entry for entry in _entries() if TASK + entry["id"] == answer.prompt_id)
        if "number" in entry:
            return is_number(answer.text, entry["number"])
        if "code" not in entry:
            return is_text(answer.text, entry["answer"])
        return self.sandbox is not None and is_code(answer.text, entry["code"], self.sandbox.passes)


@cache
def _entries() -> tuple[_Entry, ...]:
    text = resources.files("spectune.tasks").joinpath("builtin.yaml").read_text(encoding="utf-8")
    entries: list[_Entry] = yaml.safe_load(text)
    return tuple(entry if "answer" not in entry else {**entry, "answer": str(entry["answer"])} for entry in entries)
