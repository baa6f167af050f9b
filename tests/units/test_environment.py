"""Environment=, EnvironmentFile=, and what systemd puts in place of variables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.errors import InputError
from spectune.units.environment import Environment, expand, parse_environment, parse_environment_file
from spectune.units.service import ServiceUnit
from spectune.units.text import Piece, Word


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("A=1\nB = two words  \n", {"A": "1", "B": "two words"}),
        ("# A=1\n; B=2\n  C=3", {"C": "3"}),
        ("# goes on \\\nA=1\nB=2", {"B": "2"}),
        ("export A=1\nno assignment\n1A=2\nB=", {"B": ""}),
        ('A=\'x  \'  \nB="a\\"b\\$c\\d"', {"A": "x  ", "B": 'a"b$c\\d'}),
        ("A='one'two 'three'", {"A": "onetwo 'three'"}),
        ("A=one \\\n two", {"A": "one  two"}),
        ("A='one\ntwo'\nB=1", {"A": "one\ntwo", "B": "1"}),
        ("A=--x '{\"a\": 1}'", {"A": "--x '{\"a\": 1}'"}),
        ("A=1\nA=2", {"A": "2"}),
        ("A='open", {"A": "open"}),
    ],
)
def test_environment_file(text: str, values: dict[str, str]) -> None:
    assert parse_environment_file(text) == values


@given(st.text(st.sampled_from(list("A=\\\n\r'\"#; $x")), max_size=30))
def test_any_environment_file_is_read(text: str) -> None:
    assert parse_environment_file(text).keys() <= {"A", "x", "AA", "Ax", "xA", "xx"} | set(parse_environment_file(text))


def test_environment_line() -> None:
    line = "A=1 \"B=two words\" 'C=%n 100%%' D=x\\x41 noise 1=2 E=%z"
    assert parse_environment(line, {"n": "u.service"}) == {
        "A": "1",
        "B": "two words",
        "C": "u.service 100%",
        "D": "xA",
    }


def word(text: str) -> Word:
    return Word(tuple(Piece(char, at, at + 1) for at, char in enumerate(text)), 0, len(text), 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("$A", ["1"]),
        ("$LIST", ["--x", "a b", "c"]),
        ("$NONE", []),
        ("${LIST}", ["--x 'a b' c"]),
        ("p${A}q${NONE}", ["p1q"]),
        ("$$A", ["$A"]),
        ("x$A", ["x$A"]),
        ("x$$", ["x$"]),
        ("${HOME}/m", ["${HOME}/m"]),
        ("${A", ["${A"]),
    ],
)
def test_expansion(text: str, words: list[str]) -> None:
    environment = Environment({"A": "1", "LIST": "--x 'a b' c"})
    assert [item.text for item in expand(word(text), environment)] == words


@pytest.mark.parametrize("text", ["$HOME", "$A/b", "$"])
def test_what_can_not_be_told(text: str) -> None:
    with pytest.raises(InputError):
        expand(word(text), Environment({}))


def test_files_come_after_lines_and_drop_ins_after_the_unit() -> None:
    service = ServiceUnit(
        "x@a\\x2db.service",
        "[Service]\nEnvironment=A=unit B=unit C=unit\nEnvironmentFile=/e\nPassEnvironment=P\nUnsetEnvironment=C",
        {"20-b.conf": "[Service]\nEnvironment=B=twenty I=%I", "10-a.conf": "[Service]\nEnvironment=B=ten"},
        {"/e": "A=file"},
    )
    environment = service.environment()
    assert environment.values == {"A": "file", "B": "twenty", "I": "a-b"}
    assert environment.tells("NONE")
    assert not environment.tells("P")


def test_resets_drop_what_was_before() -> None:
    service = ServiceUnit(
        "x.service",
        "[Service]\nEnvironment=A=1\nEnvironmentFile=/missing\nExecStart=/a\n",
        {"a.conf": "[Service]\nEnvironment=\nEnvironmentFile=\nExecStart=\nExecStart=/b\n"},
    )
    assert service.environment().values == {}
    assert service.environment().missing == ()
    assert [(entry.file, entry.assignment.value.text) for entry in service.effective("ExecStart")] == [("a.conf", "/b")]
