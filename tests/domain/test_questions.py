from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from spectune.domain.finding import Answer
from spectune.domain.ports import Limits, Target
from spectune.domain.questions import ALONE_S, FEWEST, MANY, Questions
from spectune.domain.trial import MeasuredCell
from spectune.domain.workload import Cell, Message, Prompt

HERE = Target("http://127.0.0.1:1", "m", lambda: None, {})


def prompts(*names: str) -> tuple[Prompt, ...]:
    return tuple(Prompt(name, "chat", (Message("user", name),), 8) for name in names)


def quick() -> float:
    return 0.0


@dataclass
class Asking:
    """Answers every prompt with its own id, but for those that hang."""

    hangs: frozenset[str] = frozenset()
    asked: list[tuple[int, list[str]]] = field(default_factory=list)

    def ask(self, target: Target, prompts: Iterable[Prompt], concurrency: int) -> tuple[Answer, ...]:
        names = [prompt.id for prompt in prompts]
        self.asked.append((concurrency, names))
        return tuple(Answer(name, name, "stop", "timeout" if name in self.hangs else "") for name in names)

    def measure(
        self, target: Target, cell: Cell, prompts: Iterator[Prompt], limits: Limits, progress: Callable[[str], None]
    ) -> MeasuredCell:
        raise NotImplementedError

    def duel(
        self,
        targets: tuple[Target, Target],
        cell: Cell,
        prompts: Iterator[Prompt],
        limits: Limits,
        progress: Callable[[str], None],
    ) -> tuple[MeasuredCell, MeasuredCell]:
        raise NotImplementedError


@dataclass(frozen=True)
class Easy:
    prompts: tuple[Prompt, ...]

    def mark(self, answers: Sequence[Answer]) -> tuple[Answer, ...]:
        return tuple(replace(answer, score=1.0) for answer in answers)


def test_everything_is_asked_in_its_way() -> None:
    load = Asking()
    tasks = Easy(prompts("task/1", "task/2"))
    runs = Questions(prompts("a", "b"), prompts("s#1", "s#2"), (tasks,)).put_to(load, HERE, users=3, monotonic=quick)
    assert load.asked == [
        (1, ["a"]), (1, ["b"]), (3, ["a", "b", "a"]), (MANY, ["s#1", "s#2"]), (MANY, ["task/1", "task/2"]),
    ]  # fmt: skip
    assert [(run.users, [answer.prompt_id for answer in run.answers]) for run in runs] == [
        (1, ["a", "b"]), (3, ["a", "b"]), (MANY, ["s#1", "s#2"]), (MANY, ["task/1", "task/2"]),
    ]  # fmt: skip
    assert [answer.score for answer in runs[-1].answers] == [1.0, 1.0]


def test_one_user_has_no_company_and_nothing_more_is_asked_than_wanted() -> None:
    load = Asking()
    (run,) = Questions(prompts("a")).put_to(load, HERE, users=1, monotonic=quick)
    assert load.asked == [(1, ["a"])]
    assert run.users == 1


def test_a_server_that_hangs_is_not_asked_on() -> None:
    load = Asking(frozenset("bc"))
    runs = Questions(prompts("a", "b", "c", "d"), prompts("s#1")).put_to(load, HERE, users=8, monotonic=quick)
    assert load.asked == [(1, ["a"]), (1, ["b"]), (1, ["c"])]
    assert [answer.error for answer in runs[0].answers] == ["", "timeout", "timeout"]


def test_a_slow_server_is_asked_fewer_of_them_and_the_same_in_company() -> None:
    load = Asking()
    names = [f"p{n}" for n in range(FEWEST + 9)]
    times = iter([0.0, *[ALONE_S - 1] * 2, *[ALONE_S] * 99])
    runs = Questions(prompts(*names)).put_to(load, HERE, users=2, monotonic=lambda: next(times))
    asked = names[: FEWEST + 2]
    assert load.asked == [*((1, [name]) for name in asked), (2, asked)]
    assert [[answer.prompt_id for answer in run.answers] for run in runs] == [asked, asked]
