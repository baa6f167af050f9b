from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.engines.sglang.serverargs import parse_server_args

PARSED: tuple[tuple[str, dict[str, object]], ...] = (
    ("ServerArgs(model_path='/m', tp_size=2, port=30000)", {"model_path": "/m", "tp_size": 2, "port": 30000}),
    ("{'model_path': '/m', 'tp_size': 2}", {"model_path": "/m", "tp_size": 2}),
    ("ServerArgs(a=None, b=True, c=False, d=-1, e=0.5, f=1e-05)",
     {"a": None, "b": True, "c": False, "d": -1, "e": 0.5, "f": 1e-05}),
    ("ServerArgs(a=[1, 2], b=(), c=[], d={}, e={'x': [1]}, f=('a',))",
     {"a": [1, 2], "b": [], "c": [], "d": {}, "e": {"x": [1]}, "f": ["a"]}),
    ("ServerArgs(g=Config(decode=Phase(backend='full', bs=[1, 2]), n=None))",
     {"g": {"decode": {"backend": "full", "bs": [1, 2]}, "n": None}}),
    (r"ServerArgs(a='it\'s, b=1', b=" + '"x\\n\'y\'")', {"a": "it's, b=1", "b": "x\n'y'"}),
    ("{'a': <Mode.FULL: 'full'>, 'b': <object at 0x7f>, 'c': 1}", {"a": "full", "b": None, "c": 1}),
    ("ServerArgs(a=1, b=2", {"a": 1, "b": 2}),
    ("ServerArgs(a=1, b=@, c=3)", {"a": 1}),
    ("ServerArgs(a=1, b='open", {"a": 1}),
    ("{'a': {1, 2}, 'b': torch.bfloat16}", {"a": [1, 2], "b": "torch.bfloat16"}),
    ("ServerArgs()", {}),
    ("nothing", {}),
    ("", {}),
    ("[1, 2]", {}),
    ("ServerArgs(a=" + "[" * 100, {}),
)  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), PARSED, ids=[text[:40] for text, _ in PARSED])
def test_settings_lines_are_read(text: str, expected: dict[str, object]) -> None:
    assert parse_server_args(text) == expected


def test_code_is_not_run() -> None:
    assert parse_server_args("ServerArgs(z=0, a=__import__('os').getcwd(), b=1)") == {"z": 0, "a": ["os"]}
    assert "b" not in parse_server_args("ServerArgs(a=open('/etc/passwd').read(), b=1)")


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, min_size=1, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), values, min_size=1))
def test_what_python_writes_is_read_back(settings: dict[str, object]) -> None:
    assert parse_server_args(repr(settings)) == settings
    call = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    assert parse_server_args(f"ServerArgs({call})") == settings


@given(st.text() | st.text().map(lambda text: f"ServerArgs(a={text}"))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert isinstance(parse_server_args(text), dict)
