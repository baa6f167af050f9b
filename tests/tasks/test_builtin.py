from __future__ import annotations

import pytest

from spectune.domain.finding import Answer
from spectune.tasks.builtin import BuiltinTasks
from spectune.tasks.sandbox import sandbox

RIGHT = {
    "task/sum-1": "347 + 288 = 635",
    "task/version": "2.5.0",
    "task/weekday": "It is Saturday.",
    "task/fibonacci": "```python\ndef fib(n):\n    a, b = 0, 1\n    for _ in range(n):\n"
    "        a, b = b, a + b\n    return a\n```",
    "task/gcd": "```python\nfrom math import gcd\n```",
}


def test_without_a_sandbox_no_code_is_asked_for_or_run() -> None:
    tasks = BuiltinTasks(None)
    assert 10 < len(tasks.prompts) < len(BuiltinTasks(sandbox()).prompts) or sandbox() is None
    assert "task/fibonacci" not in {prompt.id for prompt in tasks.prompts}
    (marked,) = tasks.mark([Answer("task/fibonacci", RIGHT["task/fibonacci"])])
    assert marked.score == 0.0


@pytest.mark.parametrize("name", [name for name in RIGHT if name not in ("task/fibonacci", "task/gcd")])
def test_right_and_wrong_answers(name: str) -> None:
    right, wrong, failed = BuiltinTasks(None).mark(
        [Answer(name, RIGHT[name]), Answer(name, "I can't tell."), Answer(name, "", None, "http-error: 500")]
    )
    assert (right.score, wrong.score, failed.score) == (1.0, 0.0, None)


@pytest.mark.skipif(sandbox() is None, reason="the sandbox needs Linux, util-linux and root")
@pytest.mark.parametrize("name", ["task/fibonacci", "task/gcd"])
def test_code_is_run_against_its_tests(name: str) -> None:
    right, wrong = BuiltinTasks(sandbox()).mark([Answer(name, RIGHT[name]), Answer(name, "def fib(n): return n")])
    assert (right.score, wrong.score) == (1.0, 0.0)


def test_every_task_has_its_own_id_and_one_way_of_marking() -> None:
    ids = [prompt.id for prompt in BuiltinTasks(None).prompts]
    assert len(ids) == len(set(ids))
    assert all(prompt.max_tokens <= 256 and prompt.messages[0].content for prompt in BuiltinTasks(None).prompts)
