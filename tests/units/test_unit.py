"""Reading of unit files: lines, continuations, comments, and words of a command line."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spectune.domain.errors import InputError
from spectune.units.environment import Environment, expand
from spectune.units.execline import quote_unexpanded, quote_word, split_commands
from spectune.units.text import Splice, apply
from spectune.units.unit import Unit

SYNTAX = st.text(
    alphabet=st.sampled_from(list("[]=\\\n\r\0#; \t'\"$%{}abS")) | st.characters(codec="utf-8"), max_size=80
)
FILES = SYNTAX | SYNTAX.map(lambda text: f"[Service]\nExecStart={text}")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[Service]\nExecStart=/a b\n", ["/a b"]),
        ("[Service]\nExecStart = /a b  \n", ["/a b"]),
        ("[Service]\nExecStart=/a \\\n   b\n", ["/a     b"]),
        ("[Service]\nExecStart=/a\\\nb\n", ["/a b"]),
        ("[Service]\nExecStart=/a \\\n# c \\\n ; d\n b\nExecStart=/e", ["/a   b", "/e"]),
        ("[Service]\nExecStart=/a \\\n\nExecStart=/e", ["/a", "/e"]),
        ("[Service]\nExecStart=/a \\\\\nExecStart=/e", ["/a \\\\", "/e"]),
        ("[Service]\nExecStart=/a \\ \nExecStart=/e", ["/a \\", "/e"]),
        ("[Service]\n#ExecStart=/a \\\nExecStart=/e", ["/e"]),
        ("[Service]\r\nExecStart=/a \\\r\n  b\r\n", ["/a    b"]),
        ("\ufeff[Service]\nExecStart=/a", ["/a"]),
        ("ExecStart=/none\n[Service]\nExecStart=/a\n[Other]\nExecStart=/none\n[Service]\nExecStart=/b", ["/a", "/b"]),
        ("[Service]\nExecStart=\nno assignment\nExecStart=/b=c", ["", "/b=c"]),
        ("[Service]\nExecStart=/a \\", ["/a"]),
    ],
)
def test_values(text: str, values: list[str]) -> None:
    assert [item.value.text for item in Unit.parse(text).values("Service", "ExecStart")] == values


@given(FILES)
@example("[S]\nA=\\")
@example("[S]\nA=b\\\n#\n")
def test_any_text_is_read_and_kept(text: str) -> None:
    unit = Unit.parse(text)
    assert str(unit) == text
    for item in unit.assignments:
        value = item.value
        assert len(value.offsets) == len(value.text)
        assert list(value.offsets) == sorted(set(value.offsets))
        assert all(text[at] in {char, "\\"} for at, char in zip(value.offsets, value.text, strict=True))
        assert value.at <= value.end
        assert value.text == value.text.strip(" \t\r\n")


@given(FILES, st.data())
def test_a_replacement_changes_the_value_and_nothing_else(text: str, data: st.DataObject) -> None:
    unit = Unit.parse(text)
    if not unit.assignments:
        return
    item = data.draw(st.sampled_from(unit.assignments))
    start = data.draw(st.integers(0, len(item.value.text)))
    end = data.draw(st.integers(start, len(item.value.text)))
    changed = Unit.parse(apply(text, item.value.splices(start, end, "x")))
    assert len(changed.assignments) == len(unit.assignments)
    for before, after in zip(unit.assignments, changed.assignments, strict=True):
        if before.line == item.line:
            assert "x" in after.value.text
        else:
            assert (before.key, before.value.text) == (after.key, after.value.text)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12), max_size=6), st.booleans())
def test_words_written_are_words_read(words: list[str], expands: bool) -> None:
    quote = quote_word if expands else quote_unexpanded
    prefix = "" if expands else ":"
    text = f"[Service]\nExecStart={prefix}/bin/x {' '.join(map(quote, words))}\nRestart=no\n"
    unit = Unit.parse(text)
    assert [item.key for item in unit.assignments] == ["ExecStart", "Restart"]
    (command,) = split_commands(unit.assignments[0].value, {})
    read = command.line.words[1:]
    if expands:
        read = tuple(item for word in read for item in expand(word, Environment({"a": "never"})))
    assert [word.text for word in read] == words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/a b'c d'e", ["/a", "bc de"]),
        ("/a '' \"\"", ["/a", "", ""]),
        (r"/a \x41\101\u00e9\U0001F600\s\t", ["/a", "AAé😀 \t"]),
        (r"/a \d '\d' \\d", ["/a", r"\d", r"\d", r"\d"]),
        ("/a \\'b", ["/a", "'b"]),
        ("/a %% %n %i %q %= %", ["/a", "%", "u.service", "%i", "%q", "%=", "%"]),
        ("/a \\;", ["/a", ";"]),
        (r"/a \%n", ["/a", r"\u.service"]),
        ("/a b;c", ["/a", "b;c"]),
    ],
)
def test_words(line: str, words: list[str]) -> None:
    (command,) = split_commands(Unit.parse(f"[S]\nE={line}").assignments[0].value, {"n": "u.service"})
    assert [word.text for word in command.line.words] == words


@pytest.mark.parametrize("line", ["/a 'b", '/a "b', "-@", r"/a \xe9", "/a %z"])
def test_lines_that_systemd_refuses_too(line: str) -> None:
    with pytest.raises(InputError):
        split_commands(Unit.parse(f"[S]\nE={line}").assignments[0].value, {})


def test_changes_that_meet_are_refused() -> None:
    with pytest.raises(InputError, match="same word"):
        apply("abc", [Splice(0, 2, ""), Splice(1, 3, "")])
