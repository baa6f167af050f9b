"""What `spectune verify` is told wrongly, before it asks a server; tests/end_to_end has the rest."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from spectune.cli.main import app
from spectune.domain.errors import InputError

URL = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--probes", "8"), "--probes says nothing without another server"),
        (("--sampled", "40"), "--sampled says nothing without another server"),
        (("--sampled", "0"), "--sampled says nothing without another server"),
        (("--temperature", "0.7"), "--temperature says nothing without another server"),
        (("--against", URL, "--sampled", "11"), "--sampled 11 is too few to tell anything"),
        (("--against", URL, "--temperature", "0"), "at --temperature 0 nothing is sampled"),
    ],
)
def test_options_that_say_nothing(words: tuple[str, ...], expected: str) -> None:
    done = CliRunner().invoke(app, ["verify", URL, *words])
    assert isinstance(done.exception, InputError)
    assert expected in done.exception.message
    assert done.exception.advice


@pytest.mark.parametrize("words", [("--probes", "7"), ("--sampled", "-1"), ("--temperature", "5.1")])
def test_options_out_of_range(words: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, ["verify", URL, "--against", URL, *words]).exit_code == 2
