"""Variables set in the file that holds the command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.errors import InputError
from spectune.units.edit import edit
from spectune.units.find import find
from spectune.units.service import ServiceUnit

TEXT = "[Unit]\nDescription=x\n\n[Service]\nExecStart=/opt/llama-server -m /m.gguf \\\n  --port 1\nRestart=no\n"


def edited(text: str, variables: dict[str, str], files: dict[str, str] | None = None) -> str:
    return edit(ServiceUnit("x.service", text, {}, files or {}), {"port": 2}, variables=variables).text


def test_they_stand_behind_the_command_line() -> None:
    assert edited(TEXT, {"A": "1", "B": "two words"}) == TEXT.replace("--port 1", "--port 2").replace(
        "Restart", 'Environment="A=1"\nEnvironment="B=two words"\nRestart'
    )


@pytest.mark.parametrize(
    ("text", "text_after"),
    [
        ("[Service]\r\nExecStart=/opt/llama-server --port 1\r\n", '--port 2\r\nEnvironment="A=1"\r\n'),
        ("[Service]\nExecStart=/opt/llama-server --port 1", '--port 2\nEnvironment="A=1"\n'),
        ("[Service]\nEnvironment=A=1\nExecStart=/opt/llama-server --port 1\n", "--port 2\n"),
        ("[Service]\nEnvironment=A=0\nExecStart=/opt/llama-server --port 1\n", '--port 2\nEnvironment="A=1"\n'),
    ],
)
def test_the_end_of_the_file(text: str, text_after: str) -> None:
    assert edited(text, {"A": "1"}).partition("llama-server ")[2] == text_after


@pytest.mark.parametrize(
    "more", ["Environment=A=0\n", "Environment=\n", "EnvironmentFile=/e\n", "UnsetEnvironment=A\n"]
)
def test_what_counts_more_is_not_overlooked(more: str) -> None:
    with pytest.raises(InputError, match="A can't be set there"):
        edited(TEXT + more, {"A": "1"}, {"/e": "A=0\n"})


NAMES = st.from_regex(r"[A-Z_]{1,6}", fullmatch=True)
VALUES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12) | st.sampled_from(
    ['"', "\\", "100%", "$HOME", "a b", "", "'", "#", "%h", "\\n"]
)


@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_any_value_is_read_back(variables: dict[str, str]) -> None:
    after = ServiceUnit("x.service", edited(TEXT, variables))
    assert after.environment().values == variables
    assert find(after).argv == ("/opt/llama-server", "-m", "/m.gguf", "--port", "2")
