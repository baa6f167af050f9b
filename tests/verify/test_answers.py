"""Answers against the baseline's, judged by how often the baseline parts from itself."""

from __future__ import annotations

import random

import pytest

from spectune.domain.finding import Answer, Status
from spectune.verify.answers import compare, parting, reference
from tests.verify.builders import answers
from tests.verify.cases.answers import BASE, GARBAGE, all_parted, parted, run, text

OK, VIOLATED, UNKNOWN = Status.OK, Status.VIOLATED, Status.UNKNOWN
LOOP = text(50, 12) + " round and round" * 30


@pytest.mark.parametrize(
    ("floor", "candidate", "status"),
    [
        (BASE, BASE, OK),
        (BASE, run((3, parted(3, 20))), OK),
        (BASE, run((3, parted(3, 0))), OK),
        (BASE, run(*((n, parted(n, 30)) for n in range(4))), OK),
        (BASE, run(*((n, parted(n, 50)) for n in range(8))), OK),
        (BASE, all_parted(50), UNKNOWN),
        (BASE, all_parted(25), UNKNOWN),
        (BASE, all_parted(8), UNKNOWN),
        (BASE, all_parted(2), VIOLATED),
        (BASE, all_parted(0), VIOLATED),
        (all_parted(25), all_parted(25), OK),
        (all_parted(2), all_parted(2), UNKNOWN),
        (None, BASE, UNKNOWN),
        (None, all_parted(0), UNKNOWN),
        ((), BASE, UNKNOWN),
        (BASE, (), UNKNOWN),
        (BASE, BASE[:3], UNKNOWN),
        (BASE, BASE[:4], OK),
        (BASE, run((1, "")), VIOLATED),
        (BASE, run((1, GARBAGE)), VIOLATED),
        (None, run((1, GARBAGE)), VIOLATED),
        (BASE, run((1, LOOP)), OK),
        (BASE, run((1, LOOP), (2, LOOP)), UNKNOWN),
        (BASE, run(*((n, text(n) + " and so on" * 20) for n in range(6))), VIOLATED),
        (BASE, run(*((n, " ".join(text(n).split()[:30])) for n in range(6))), VIOLATED),
        (BASE, run((1, " ".join(text(1).split()[:30]))), OK),
        (BASE, (*BASE[:-1], Answer("p11", "", None, "connection reset")), VIOLATED),
    ],
    ids=[
        "equal",
        "one parts late",
        "one parts at once",
        "a third parts in the middle",
        "most part near the end",
        "all part near the end",
        "all part in the middle",
        "all part early",
        "all part within words",
        "all part at once",
        "no worse than the baseline from itself",
        "the baseline does not repeat itself",
        "no floor",
        "no floor, all part",
        "empty floor",
        "no answers",
        "three answers",
        "four answers",
        "an empty answer",
        "a garbled answer",
        "a garbled answer, no floor",
        "one loop",
        "two loops",
        "many loops",
        "many cut short",
        "one cut short",
        "an error",
    ],
)
def test_compare(floor: tuple[Answer, ...] | None, candidate: tuple[Answer, ...], status: Status) -> None:
    assert compare(BASE, floor, candidate).status is status


OBJECTS = tuple(f'{{"{text(n, 3)}": {n}}}' for n in range(4))


def with_json(*broken: int) -> tuple[Answer, ...]:
    """Four answers of JSON beside the others; some are cut in the middle."""
    objects = [text[: len(text) // 2] + "," if n in broken else text for n, text in enumerate(OBJECTS)]
    return (*BASE, *(Answer(f"j{n}", text) for n, text in enumerate(objects)))


@pytest.mark.parametrize(
    ("broken", "status"), [((), OK), ((1,), UNKNOWN), ((0, 1), VIOLATED), ((0, 1, 2, 3), VIOLATED)]
)
def test_what_programs_read_must_stay_readable(broken: tuple[int, ...], status: Status) -> None:
    base = with_json()
    found = compare(base, base, with_json(*broken))
    assert found.status is status
    assert not broken or "no valid JSON any more" in found.seen


def test_what_the_baseline_breaks_too_is_no_fault() -> None:
    base = with_json(0, 1, 2, 3)
    assert compare(base, base, base).status is OK


@pytest.mark.parametrize(
    ("text", "reason", "status"),
    [("x = 1\ny = [1,\n  2", "length", OK), ("x = 1\ny = (\n```\n", "length", UNKNOWN), ("x = 1", "stop", UNKNOWN)],
    ids=["sound so far", "broken before", "ended"],
)
def test_code_that_the_limit_cut_off_need_only_be_sound_so_far(text: str, reason: str, status: Status) -> None:
    base = (*BASE, Answer("code", "```python\nx = 1\n```\n", "stop"))
    assert compare(base, base, (*BASE, Answer("code", f"```python\n{text}", reason))).status is status


def test_a_violation_shows_an_example_that_cannot_act_on_a_terminal() -> None:
    found = compare(BASE, BASE, run((3, "fine so far \x1b[2J" + GARBAGE)))
    assert found.status is VIOLATED
    assert 'for example "p3"' in found.seen
    assert "\x1b" not in found.seen
    assert text(3)[:20] in found.seen


def test_flaws_that_the_baseline_shares_are_no_fault() -> None:
    base = answers(*([LOOP] * 3), *(text(n) for n in range(8)))
    assert compare(base, base, base).status is OK


def test_prompts_that_the_baseline_fails_are_left_out() -> None:
    base = (*BASE[:-1], Answer("p11", "", None, "too long"))
    assert compare(base, base, base).status is OK
    assert len(parting(base, BASE).pairs) == 11


def test_short_answers_say_too_little() -> None:
    base = answers(*["Yes."] * 6)
    found = compare(base, base, base)
    assert found.status is UNKNOWN
    assert "too little text" in found.seen


def numerics(rate: float, seed: int, prompts: int = 16, length: int = 80) -> Status:
    """The judgement on a candidate whose answers part at a true rate per word, against a floor of the same rate / 2."""
    rng = random.Random(seed)

    def replay(per_word: float) -> tuple[Answer, ...]:
        at = (next((i for i in range(length) if rng.random() < per_word), length) for _ in range(prompts))
        return answers(*(parted(n, i, length) if i < length else text(n, length) for n, i in enumerate(at)))

    base = answers(*(text(n, length) for n in range(prompts)))
    return compare(base, replay(rate / 2), replay(rate)).status


@pytest.mark.parametrize(
    ("rate", "status", "least"),
    [(0.0, OK, 40), (0.005, OK, 36), (0.3, VIOLATED, 30), (0.9, VIOLATED, 40)],
)
def test_error_rates(rate: float, status: Status, least: int) -> None:
    """Out of 40 candidates. The floor's own rate is held down so that it does not excuse a broken candidate."""
    found = [numerics(rate, seed) if rate < 0.1 else broken(rate, seed) for seed in range(40)]
    assert found.count(status) >= least
    assert rate < 0.1 or OK not in found


def broken(rate: float, seed: int) -> Status:
    """As above with a baseline that repeats itself."""
    rng = random.Random(seed)
    at = [next((i for i in range(80) if rng.random() < rate), 80) for _ in range(16)]
    base = answers(*(text(n, 80) for n in range(16)))
    return compare(base, base, answers(*(parted(n, i, 80) for n, i in enumerate(at)))).status


@pytest.mark.parametrize(
    ("mine", "again", "status"),
    [
        (BASE, BASE, OK),
        (BASE, None, OK),
        (BASE, BASE[:2], UNKNOWN),
        (BASE[:3], BASE, UNKNOWN),
        (answers(*[LOOP] * 8), BASE, UNKNOWN),
    ],
)
def test_reference(mine: tuple[Answer, ...], again: tuple[Answer, ...] | None, status: Status) -> None:
    assert reference(mine, again).status is status
