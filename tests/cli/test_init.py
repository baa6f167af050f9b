"""`spectune init`: what it refuses before it writes a file that could not run, and what it calls a suggestion."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spectune.cli import campaign_file
from spectune.cli.main import app
from spectune.domain.errors import InputError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.gguf").touch()
    (tmp_path / "real.gguf").write_bytes(b"GGUF" + bytes(64))
    (tmp_path / "file").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--model", "/models/none.gguf"], "--model: there is no file /models/none.gguf"),
        (["--model", "reel.gguf"], "did you mean"),
        (["--model", "empty.gguf"], "--model: "),
        (["--draft-model", "/nope"], "--draft-model: there is no file /nope"),
        (["--engine-binary", "/nope"], "--engine-binary: there is no program /nope"),
        (["--engine-binary", "no-such-server"], "--engine-binary: no program no-such-server on PATH"),
        (["none/c.yaml"], "OUT: none/c.yaml is no place for a file: there is no folder"),
        (["file/c.yaml"], "is no folder"),
        (["."], "it is a folder"),
    ],
)
def test_nothing_is_written_that_can_not_run(folder: Path, words: list[str], expected: str) -> None:
    error = CliRunner().invoke(app, ["init", *words]).exception
    assert isinstance(error, InputError)
    assert expected in error.message
    assert error.advice
    assert not (folder / "campaign.yaml").exists()


def test_settings_that_nobody_has_seen_are_called_a_suggestion(folder: Path) -> None:
    done = CliRunner().invoke(app, ["init", "--model", "real.gguf"])
    assert done.exit_code == 0, done.output
    text = (folder / "campaign.yaml").read_text()
    about = " ".join(re.findall(r"^  # (.*)\n", text.partition("  args:")[0], re.MULTILINE))
    assert "A suggestion: spectune has not looked at any server of yours" in about
    assert "Today's settings" not in text
    assert campaign_file.load(folder / "campaign.yaml").service.args["ctx-size"] == 8192
