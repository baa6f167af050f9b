"""The tasks that a campaign asks for."""

from __future__ import annotations

from itertools import islice

from spectune.assemble.engines import Progress
from spectune.domain.ports import PromptSource
from spectune.domain.questions import Exam
from spectune.domain.spec import CampaignSpec
from spectune.tasks.builtin import BuiltinTasks
from spectune.tasks.checker import CheckedTasks, checker_command
from spectune.tasks.sandbox import sandbox


def exams(spec: CampaignSpec, prompts: PromptSource, progress: Progress) -> tuple[Exam, ...]:
    """What is asked beside the probes; nothing unless the campaign file says so.

    Raises:
        InputError: the checker can't be run.
    """
    found: list[Exam] = []
    if spec.tasks.builtin:
        place = sandbox()
        if place is None:
            progress("tasks: code is not asked for, the sandbox needs Linux, util-linux and root", None)
        found.append(BuiltinTasks(place))
    if spec.tasks.checker:
        # Lane 0 is measured by nobody.
        asked = islice(prompts.deal(0, len(spec.cells) + 1), spec.tasks.checked)
        found.append(CheckedTasks(checker_command(spec.tasks.checker), tuple(asked)))
    return tuple(found)
