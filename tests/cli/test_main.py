"""How commands end that are told to stop, and what they say then."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, cast

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from spectune.cli import main as command_line
from spectune.load.quiet import until_done


@pytest.fixture
def handled() -> Iterator[None]:
    """SIGTERM handled as the command line handles it."""
    before = signal.signal(signal.SIGTERM, command_line._AsCtrlC())
    yield
    signal.signal(signal.SIGTERM, before)


def test_an_event_loop_that_is_told_twice_at_once_still_closes_what_is_open(handled: None) -> None:
    """timeout(1) tells a process, and then its group, to which it belongs."""
    closed = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        for after in (0.01, 0.03):
            loop.call_later(after, os.kill, os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(0.1)
            closed.append("in order")

    with pytest.raises(KeyboardInterrupt):
        until_done(work())
    assert closed == ["in order"]


def test_where_ctrl_c_is_ignored_a_wish_to_end_is_not(handled: None) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)


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
