"""The user's own checker: a command that is told a prompt and its answer, and says whether it is right."""

from __future__ import annotations

import json
import math
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectune.domain.errors import InputError
from spectune.domain.finding import Answer
from spectune.domain.tasks import TASK
from spectune.domain.workload import Prompt

PATIENCE_S = 60.0
RIGHT, WRONG = 0, 1
"""Exit codes."""
_KEY = "tasks.checker"


@dataclass(frozen=True, slots=True)
class CheckedTasks:
    """Prompts of the workload whose answers a command marks.

    Attributes:
        argv: the command.
        asked: the prompts, as the workload has them.
    """

    argv: tuple[str, ...]
    asked: tuple[Prompt, ...]

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        return tuple(replace(prompt, id=TASK + prompt.id) for prompt in self.asked)

    def mark(self, answers: Sequence[Answer]) -> tuple[Answer, ...]:
        """The answers with scores from 0 to 1; None where the request failed.

        Raises:
            InputError: the command can't be run, fails by another code than those of right and wrong, takes longer
                than a minute, or says a number outside 0 to 1.
        """
        known = {prompt.id: prompt for prompt in self.prompts}
        return tuple(
            answer if answer.error else replace(answer, score=self._score(known[answer.prompt_id], answer.text))
            for answer in answers
        )

    def _score(self, prompt: Prompt, answer: str) -> float:
        told = {
            "id": prompt.id.removeprefix(TASK),
            "domain": prompt.domain,
            "messages": [{"role": message.role, "content": message.content} for message in prompt.messages],
            "answer": answer,
        }
        name = self.argv[0]
        try:
            done = subprocess.run(
                self.argv, input=json.dumps(told), capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                errors="replace",
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise InputError(f"{_KEY}: {name} took longer than {PATIENCE_S:g} s", "Make it faster.") from error
        except OSError as error:
            raise InputError(
                f"{_KEY}: {name} can't be run: {error.strerror}", "Look at its path and rights."
            ) from error
        if done.returncode not in (RIGHT, WRONG):
            said = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
            raise InputError(
                f"{_KEY}: {name} ended with code {done.returncode}: {said[0][:200]}",
                f"It should end with {RIGHT} for right and {WRONG} for wrong.",
            )
        return _told_score(done.stdout, float(done.returncode == RIGHT), name)


def _told_score(output: str, without: float, name: str) -> float:
    lines = output.strip().splitlines()
    try:
        score = float(lines[-1]) if lines else without
    except ValueError:
        return without
    if not (math.isfinite(score) and 0 <= score <= 1):
        raise InputError(f"{_KEY}: {name} said {score:g}", "A score is a number from 0 to 1, alone on the last line.")
    return score


def checker_command(text: str) -> tuple[str, ...]:
    """The words of a command as the campaign file has it.

    Raises:
        InputError: its quotes don't match, or there is no such program.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise InputError(f"{_KEY}: {error}", "Write it as in a shell.") from error
    if not words or shutil.which(words[0]) is None:
        raise InputError(f"{_KEY}: no program {words[0] if words else text!r}", "Give its path, or put it on PATH.")
    return words
