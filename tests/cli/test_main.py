"""How commands begin that can not be done, and end that are told to stop; what they say then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from spectune import assemble
from spectune.cli import main as command_line
from spectune.cli.run import check_priors
from spectune.domain.errors import InputError
from tests.assemble.earlier import start, write


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "c.yaml"], "the same command goes on from here"),
        (["demo", "--new"], "the same command without --new goes on from here"),
        (["bench", "http://x"], "the same command begins anew; --save keeps the levels that were done"),
        (["check", "c.yaml"], "the same command begins anew"),
        (["verify", "http://x"], "the same command begins anew"),
        (["promote"], "spectune status tells what the service runs, and what was cut off"),
        ([], "the same command begins anew"),
    ],
)
def test_what_is_said_after_an_interruption_is_true(words: list[str], expected: str) -> None:
    assert command_line._what_now(words).endswith(expected)


@pytest.mark.parametrize("words", [["report", "--format", "pdf"], ["verify", "http://x", "--method", "spec"]])
def test_a_choice_that_is_none_names_the_valid_ones(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "spectune", *words], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "is not one of" in done.stderr
    assert "Value error" not in done.stderr


def test_the_default_levels_of_bench_can_be_typed_as_shown() -> None:
    text = " ".join(CliRunner().invoke(command_line.app, ["bench", "--help"]).output.split())
    assert "by default 1,4,16." in text
    assert "(1,4,16)" not in text


def test_every_command_that_tells_a_result_takes_json() -> None:
    commands: dict[str, Any] = cast(Any, get_command(command_line.app)).commands
    without = {
        name
        for name, command in commands.items()
        if name != "bench" and not any("--json" in option.opts for option in command.params)
    }
    assert without == {"init", "schema", "report", "export"}


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize(
    ("prior", "said"), [("nowhere", "no ledger in nowhere"), ("c.yaml", "--prior: c.yaml is a file")]
)
def test_a_wrong_prior_is_told_before_anything_is_built(
    command: str, prior: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text("name: x\nservice: {binary: /no/such/server}\n", "utf-8")
    found = CliRunner().invoke(command_line.app, [command, "c.yaml", "--prior", prior])
    assert isinstance(found.exception, InputError)
    assert said in found.exception.message
    assert not Path("spectune-runs").exists()


def test_a_campaign_that_goes_on_needs_the_prior_no_more_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was told is in its first event."""
    monkeypatch.chdir(tmp_path)
    event = start()
    with assemble.writable(Path("spectune-runs")) as ledger:
        write(ledger, event, finished=False)
    check_priors([Path("gone")], event.spec.name, Path("spectune-runs"))
    for name in ("", "another"):
        with pytest.raises(InputError, match="no ledger in gone"):
            check_priors([Path("gone")], name, Path("spectune-runs"))
