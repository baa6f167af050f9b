from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spectune.engines.vllm.reprs import parse_config, parse_dict

CONFIG = (
    "model='/m', speculative_config=SpeculativeConfig(method='eagle', model=\"it's\", num_spec_tokens=2), "
    "dtype=torch.bfloat16, load_format=auto, download_dir=None, seed=-1, ratio=0.5, big=1e3, quantization="
    "compressed-tensors, empty=, served_model_name=a b/c-d:e, compilation_config={'mode': <CompilationMode.NONE: 0>, "
    "'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, 'sizes': [1, 2], 'none': [], 'nothing': {}, "
    "'set': {'x'}, 'thing': <object at 0x7f>}, last=True"
)


def test_a_configuration() -> None:
    assert parse_config(CONFIG) == {
        "model": "/m",
        "speculative_config": {"method": "eagle", "model": "it's", "num_spec_tokens": 2},
        "dtype": "bfloat16",
        "load_format": "auto",
        "download_dir": None,
        "seed": -1,
        "ratio": 0.5,
        "big": 1000.0,
        "quantization": "compressed-tensors",
        "empty": "",
        "served_model_name": "a b/c-d:e",
        "compilation_config": {
            "mode": "none",
            "cudagraph_mode": "full_and_piecewise",
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
    whole, found = parse_config(CONFIG), parse_config(CONFIG[:cut])
    names = list(found)
    assert names == list(whole)[: len(names)]
    for name in names[:-1]:
        assert found[name] == whole[name]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{'a': 1, 'b': {'c': 'd'}}", {"a": 1, "b": {"c": "d"}}),
        ("{'a': 'it\\'s'} and more", {"a": "it's"}),
        ("{}", {}),
        ("{'a': 1, 'b': ", {"a": 1}),
        ("{'a'}", {}),
        ("a=1", {}),
        ("", {}),
        ("{" * 5000, {}),
    ],
    ids=lambda value: str(value)[:20],
)
def test_dictionaries(text: str, expected: dict[str, object]) -> None:
    assert parse_dict(text) == expected


@given(st.text(alphabet=st.sampled_from("abAB01.,:='\"(){}[]<> \\_-\n\t")))
@example("a=" + "(" * 3000)
@example("a=" + "[" * 20 + "]" * 20)
@example("a=b(")
def test_any_text_is_read(text: str) -> None:
    for prefix in ("", "a=", "{'a': "):
        assert isinstance(parse_config(prefix + text), dict)
        assert isinstance(parse_dict(prefix + text), dict)
