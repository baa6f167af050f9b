from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.tasks.marking import is_code, is_number, is_text


@pytest.mark.parametrize(
    ("answer", "wanted", "right"),
    [
        ("635", 635, True),
        ("347 + 288 = **635**.", 635, True),
        ("The answer is 1,203", 1203, True),
        ("It is -4.5", -4.5, True),
        ("<think>6 or 7?</think>\n635", 635, True),
        ("635 or 636", 635, False),
        ("6350", 635, False),
        ("six hundred", 635, False),
        ("", 635, False),
    ],
)
def test_numbers(answer: str, wanted: float, right: bool) -> None:
    assert is_number(answer, wanted) == right


@pytest.mark.parametrize(
    ("answer", "wanted", "right"),
    [
        ("Turin", "Turin", True),
        ("She lives in Turin.", "Turin", True),
        ("**Turin**", "Turin", True),
        ("Brno? No:\nTurin", "Turin", True),
        ("Turin\nor Vienna", "Turin", False),
        ("Turinese", "Turin", False),
        ("E4032", "E403", False),
        ("2.5.0", "2.5.0", True),
        ("ops@harbour.example", "ops@harbour.example", True),
        (
            "Ada was born in Brno, studied in Vienna, moved on several times, and in the end lives in Turin",
            "Turin",
            False,
        ),
        ("", "Turin", False),
    ],
)
def test_texts(answer: str, wanted: str, right: bool) -> None:
    assert is_text(answer, wanted) == right


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("First\n```\nx = 0\n```\nbetter:\n```py\nx = 1\n```\nDone.", "x = 1\n"),
        ("```python\nx = 1", "x = 1"),
        ("x = 1", "x = 1"),
    ],
)
def test_the_last_block_of_code_is_run(answer: str, code: str) -> None:
    run: list[tuple[str, str]] = []
    assert is_code(answer, "tests", lambda *parts: run.append(parts) or True)  # type: ignore[func-returns-value]
    assert run == [(code, "tests")]


@pytest.mark.parametrize("answer", ["", "  \n", "x" * 30_000])
def test_no_code_and_too_much_of_it_are_not_run(answer: str) -> None:
    assert not is_code(answer, "tests", lambda code, tests: pytest.fail("it was run"))


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False), st.text(min_size=1))
def test_no_answer_raises(answer: str, number: float, text: str) -> None:
    is_number(answer, number)
    is_text(answer, text)
    is_code(answer, "", lambda code, tests: True)
