from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from spectune.domain.errors import InputError
from spectune.domain.finding import Answer
from spectune.domain.workload import Message, Prompt
from spectune.tasks import checker
from spectune.tasks.checker import CheckedTasks, checker_command

PROMPT = Prompt("chat/1", "chat", (Message("user", "Say yes."),), 8)


def checked(tmp_path: Path, script: str) -> CheckedTasks:
    path = tmp_path / "check.py"
    path.write_text(f"import json, sys, time\ntold = json.load(sys.stdin)\n{script}\n")
    return CheckedTasks((sys.executable, str(path)), (PROMPT,))


def score(tasks: CheckedTasks, text: str = "yes") -> float | None:
    (marked,) = tasks.mark([Answer(tasks.prompts[0].id, text)])
    return marked.score


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        ("sys.exit(0)", 1.0),
        ("sys.exit(1)", 0.0),
        ("sys.exit(told['answer'] != 'yes')", 1.0),
        ("print('fine'); print(0.25)", 0.25),
        ("print('0.75'); sys.exit(1)", 0.75),
        ("print('looks good')", 1.0),
    ],
)
def test_scores(tmp_path: Path, script: str, wanted: float) -> None:
    assert score(checked(tmp_path, script)) == wanted


def test_the_command_hears_of_prompt_and_answer(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    score(checked(tmp_path, f"open({str(heard)!r}, 'w').write(json.dumps(told))"), 'no "\ud800\x00')
    told = json.loads(heard.read_text())
    assert (told["id"], told["domain"]) == ("chat/1", "chat")
    assert told["messages"] == [{"role": "user", "content": "Say yes."}]
    assert told["answer"] == 'no "\ud800\x00'


def test_failed_requests_are_not_shown_to_it(tmp_path: Path) -> None:
    tasks = checked(tmp_path, "sys.exit(9)")
    (marked,) = tasks.mark([Answer(tasks.prompts[0].id, "", None, "reset: gone")])
    assert marked.score is None


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("sys.exit(2)", "ended with code 2"),
        ("print(7)", "said 7"),
        ("print('nan')", "said nan"),
        ("time.sleep(30)", "took longer"),
    ],
)
def test_a_checker_that_does_not_work_is_named(
    tmp_path: Path, script: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker, "PATIENCE_S", 1.5)
    with pytest.raises(InputError, match=r"tasks\.checker") as caught:
        score(checked(tmp_path, script))
    assert words in caught.value.message
    assert caught.value.advice


def test_commands() -> None:
    assert checker_command("sh -c 'exit 0'") == ("sh", "-c", "exit 0")
    for wrong in ("no-such-program-here", "sh 'x", "  "):
        with pytest.raises(InputError, match=r"tasks\.checker"):
            checker_command(wrong)
    with pytest.raises(InputError, match="can't be run"):
        score(CheckedTasks(("/no/such/checker",), (PROMPT,)))
