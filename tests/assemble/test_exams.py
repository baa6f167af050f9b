from __future__ import annotations

import pytest

from spectune.assemble.exams import exams
from spectune.domain.errors import InputError
from spectune.domain.spec import CampaignSpec, WorkloadSpec
from spectune.domain.tasks import TaskSpec
from spectune.tasks.builtin import BuiltinTasks
from spectune.tasks.checker import CheckedTasks
from spectune.workload import builtin_source

SPEC = CampaignSpec("tasks", workload=WorkloadSpec(concurrency=(1,), temperatures=(0.0,)))


def of(tasks: TaskSpec) -> list[object]:
    spec = CampaignSpec("tasks", workload=SPEC.workload, tasks=tasks)
    return list(exams(spec, builtin_source(), lambda text, share: None))


def test_nothing_is_asked_unless_the_file_says_so() -> None:
    assert of(TaskSpec()) == []


def test_the_builtin_set_and_the_users_checker() -> None:
    builtin, checked = of(TaskSpec(builtin=True, checker="true --all", checked=5))
    assert isinstance(builtin, BuiltinTasks)
    assert isinstance(checked, CheckedTasks)
    assert checked.argv == ("true", "--all")
    measured = builtin_source().deal(1, 2)
    assert len(checked.prompts) == 5
    assert not {p.id.removeprefix("task/") for p in checked.prompts} & {next(measured).id for _ in range(50)}


def test_a_checker_that_is_not_there_is_an_error_before_anything_starts() -> None:
    with pytest.raises(InputError, match=r"tasks\.checker: no program"):
        of(TaskSpec(checker="no-such-checker"))
