from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spectune.engines.common.reprs import fields

READ: tuple[tuple[str, dict[str, object]], ...] = (
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
    ("{'a': <Mode.BOTH: (2, 1)>, 'b': <Mode.NONE: 0>}", {"a": [2, 1], "b": 0}),
    ("{'graphs': {1: 2, 4: 'x'}}", {"graphs": {"1": 2, "4": "x"}}),
    ("ServerArgs(a=1, b=2", {"a": 1}),  # it may have been 20
    ("ServerArgs(a=1, b=], c=3)", {"a": 1}),
    ("ServerArgs(a=1, b='open", {"a": 1}),
    ("{'a': {1, 2}, 'b': torch.bfloat16}", {"a": [1, 2], "b": "torch.bfloat16"}),
    ("{'a': 'it\\'s'} and more", {"a": "it's"}),
    ("{'a': 1, 'b': ", {"a": 1}),
    ("{'a'}", {}),
    ("ServerArgs()", {}),
    ("a=1", {}),
    ("nothing", {}),
    ("", {}),
    ("[1, 2]", {}),
    ("{" * 5000, {}),
    ("ServerArgs(a=" + "[" * 100, {}),
)  # fmt: skip

CONFIG = (
    "(model='/m', speculative_config=SpeculativeConfig(method='eagle', model=\"it's\", num_spec_tokens=2), "
    "dtype=torch.bfloat16, load_format=auto, download_dir=None, seed=-1, ratio=0.5, big=1e3, quantization="
    "compressed-tensors, empty=, served_model_name=a b/c-d:e, compilation_config={'mode': <CompilationMode.NONE: 0>, "
    "'sizes': [1, 2], 'none': [], 'nothing': {}, 'set': {'x'}, 'thing': <object at 0x7f>}, last=True)"
)


@pytest.mark.parametrize(("text", "expected"), READ, ids=[text[:40] for text, _ in READ])
def test_settings_lines_are_read(text: str, expected: dict[str, object]) -> None:
    assert fields(text) == expected


def test_bare_words() -> None:
    assert fields(CONFIG) == {
        "model": "/m",
        "speculative_config": {"method": "eagle", "model": "it's", "num_spec_tokens": 2},
        "dtype": "torch.bfloat16",
        "load_format": "auto",
        "download_dir": None,
        "seed": -1,
        "ratio": 0.5,
        "big": 1000.0,
        "quantization": "compressed-tensors",
        "empty": "",
        "served_model_name": "a b/c-d:e",
        "compilation_config": {
            "mode": 0,
            "sizes": [1, 2],
            "none": [],
            "nothing": {},
            "set": ["x"],
            "thing": None,
        },
        "last": True,
    }


@pytest.mark.parametrize("cut", range(1, len(CONFIG), 7))
def test_what_breaks_off_gives_what_comes_before(cut: int) -> None:
    whole, found = fields(CONFIG), fields(CONFIG[:cut])
    names = list(found)
    assert names == list(whole)[: len(names)]
    for name in names[:-1]:
        assert found[name] == whole[name]


def test_code_is_not_run() -> None:
    assert fields("ServerArgs(z=0, a=__import__('os').getcwd(), b=1)") == {"z": 0, "a": ["os"]}
    assert "b" not in fields("ServerArgs(a=open('/etc/passwd').read(), b=1)")


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, min_size=1, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), values, min_size=1))
def test_what_python_writes_is_read_back(settings: dict[str, object]) -> None:
    assert fields(repr(settings)) == settings
    call = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    assert fields(f"ServerArgs({call})") == settings


@given(st.text(alphabet=st.sampled_from("abAB01.,:='\"(){}[]<> \\_-\n\t")) | st.text())
@example("(" * 3000)
@example("[" * 20 + "]" * 20)
@example("b(")
def test_of_any_text_only_its_names_are_read(text: str) -> None:
    for prefix in ("", "(a=", "{'a': ", "ServerArgs(a="):
        found = fields(prefix + text)
        assert "'" in text or '"' in text or all(name in prefix + text for name in found)
