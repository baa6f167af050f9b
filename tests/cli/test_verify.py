"""`spectune verify` on a small server in this process, and what it is told wrongly; tests/end_to_end has the rest."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from spectune.cli import screen
from spectune.cli.main import app
from spectune.domain.errors import InputError
from spectune.load.exchange import Timeouts
from tests.cli.test_bench import Served, serving

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


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as made:
        yield made


def verify(*words: str) -> Result:
    done = CliRunner().invoke(app, ["verify", *words], env={"SPECTUNE_API_KEY": ""})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_what_needs_a_log_is_named_and_stands_in_nobodys_way(served: Served, tmp_path: Path) -> None:
    needing = ("adjustments-allowed", "output-valid", "new-warnings")
    without = verify(served.url, "--json")
    assert {f["check"] for f in json.loads(without.stdout)}.isdisjoint(needing)
    assert f"not checked without a log: {', '.join(needing)}" in without.stderr
    log = tmp_path / "server.log"
    log.write_text("server is listening\n")
    given = verify(served.url, "--json", "--log", str(log))
    found = {f["check"]: f["status"] for f in json.loads(given.stdout)}
    assert {found[name] for name in needing} == {"ok"}
    assert "not checked" not in given.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--log", "/none.log"), "--log: cannot read /none.log"),
        (("--log", "/dev/null"), "--log: /dev/null is empty"),
        (("--log", "/dev/null", "--against", URL), "--log says nothing with --against"),
        (("--prompts", "/none.jsonl"), "--prompts: no file /none.jsonl"),
    ],
)
def test_files_that_are_not_there(words: tuple[str, ...], expected: str) -> None:
    done = CliRunner().invoke(app, ["verify", URL, *words])
    assert isinstance(done.exception, InputError)
    assert expected in done.exception.message
    assert done.exception.advice


def test_a_probe_that_is_never_answered_ends_the_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Timeouts, "__init__", _quick)
    with serving() as silent:
        silent.delay_s = 30.0
        began = time.monotonic()
        done = verify(silent.url)
        assert time.monotonic() - began < 15
        assert len(silent.bodies) == 1
    assert done.exit_code == 3
    assert "no answer after 1 s" in done.stdout


def _quick(self: Timeouts) -> None:
    for name, seconds in (("connect_s", 5.0), ("first_byte_s", 1.0), ("idle_s", 1.0)):
        object.__setattr__(self, name, seconds)


def test_who_waits_without_a_terminal_hears_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    with screen.working("checking tiny", every_s=0.02) as progress:
        progress("probe 1 of 6")
        time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "checking tiny"
    assert lines[-1].startswith("checking tiny: probe 1 of 6  after ")
