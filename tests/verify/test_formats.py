"""Texts that programs read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.verify.formats import LONGEST, UNDER_WAY, Format, format_of, python_so_far

CODE = "def f(a):\n    return a + 1\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"a": 1}', Format.JSON),
        (' [1, "b"]\n', Format.JSON),
        ('Here you are:\n```json\n{"a": 1}\n```\nBye.', Format.JSON),
        ('<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>', Format.JSON),
        ('{"a": 1', None),
        ('{"a": 1}, "', None),
        ('<tool_call>\n{"name": "f", "arguments": {"a": 1, "}\n</tool_call>', None),
        ("```json\n{'a': 1}\n```", None),
        ("7", None),
        ("true", None),
        ("", None),
        ("Plain words {with} brackets.", None),
        (f"```python\n{CODE}```", Format.PYTHON),
        (f"```py\n{CODE}```\nand\n```python\n{CODE}```", Format.PYTHON),
        (f"```python\n{CODE}```\nand\n```python\ndef f(:\n```", None),
        (f"```python\n{CODE}", None),
        (f"```rust\n{CODE}```", None),
        ("```python\n\n```", None),
        (f"```python\n{'a = 1;' * LONGEST}\n```", None),
        ('```python\nx = "\\d"\n```', Format.PYTHON),
        ("```python\n" + "(" * 3000 + "\n```", None),
        ("[" * 100_000, None),
    ],
)
def test_formats(text: str, kind: Format | None) -> None:
    assert format_of(text) is kind


ODD = st.text(alphabet="`pythonjs{}[]\"\n :,\\'()1\x00\ud800<>/", max_size=60)
VALUE = st.recursive(
    st.text("a`<>é\n ") | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text("ab"), inner)
)


@given(ODD)
def test_any_text_is_read_and_brackets_are_needed_for_json(text: str) -> None:
    for shown in (text, f"```python\n{text}```", f"```json\n{text}```"):
        assert format_of(shown) is not Format.JSON or {"{", "["} & set(shown)


@given(ODD, VALUE)
def test_json_is_found_as_a_whole_and_as_a_tool_call_in_any_text(text: str, value: object) -> None:
    whole = json.dumps([value])
    assert format_of(whole) is Format.JSON
    assert format_of(f"{text}</tool_call><tool_call>{whole.replace('<', '.')}</tool_call>{text}") is Format.JSON


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        (f"```python\n{CODE}def g(b):\n    return [", True),
        (f"Words.\n```py\n{CODE}```\nMore.\n```python\nx = 1\ny = foo(1,\n  2,\n  'a", True),
        ("```python\n", True),
        ("```python\ndef", True),
        (f"```python\n{CODE}```\nDone.", False),
        (f"```python\ndef f(:\n{'x = 1' * UNDER_WAY}" + "\nx = 1" * UNDER_WAY, False),
        (f"```python\ndef f(:\n```\n```python\n{CODE}", False),
        ("no code at all", False),
        ("", False),
    ],
)
def test_code_that_was_cut_off(text: str, sound: bool) -> None:
    assert python_so_far(text) is sound
