"""What a campaign file may say about tasks with right and wrong answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field

TASK = "task/"
"""How the ids of prompts begin whose answers are marked."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """Answers that are right or wrong: what a candidate loses beside the baseline. Off unless asked for."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    builtin: Annotated[
        bool,
        Field(
            description="Ask the built-in set: sums, extraction, small functions in Python. The code that a model "
            "writes is run against tests, in a sandbox that needs Linux and root; without it code is not asked for."
        ),
    ] = False
    checker: Annotated[
        str,
        Field(
            description="Your own judge of the workload's answers: a command that reads a JSON object (id, domain, "
            "messages, answer) and ends with 0 for right, 1 for wrong; a number from 0 to 1 on its output is a score."
        ),
    ] = ""
    checked: Annotated[int, Field(ge=1, le=500, description="How many of the workload's prompts the checker sees.")] = (
        32
    )
