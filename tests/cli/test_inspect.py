"""`spectune list`, `show`, `report`, and what `promote` and `rollback` tell programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

from spectune import assemble
from spectune.cli.main import app
from spectune.domain.errors import InputError
from tests.ledger.samples import BASELINE, ended, opened


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def ledger_in(folder: Path, campaigns: int) -> Path:
    with assemble.writable(folder) as ledger:
        for _ in range(campaigns):
            ledger.open(opened())
    return folder


@pytest.mark.parametrize("command", ["list", "show", "report", "export"])
@pytest.mark.parametrize(("place", "expected"), [("none", "there is no ledger in"), ("file", "is a file")])
def test_without_a_ledger_the_input_is_wrong(tmp_path: Path, command: str, place: str, expected: str) -> None:
    (tmp_path / "file").touch()
    error = invoke(command, "--dir", str(tmp_path / place)).exception
    assert isinstance(error, InputError)
    assert expected in error.message
    assert "--dir" in error.message + error.advice


@pytest.mark.parametrize("command", ["show", "report"])
def test_a_ledger_without_campaigns_says_where_else_to_look(tmp_path: Path, command: str) -> None:
    error = invoke(command, "--dir", str(ledger_in(tmp_path, 0))).exception
    assert isinstance(error, InputError)
    assert "--dir" in error.advice


def test_a_list_of_none_says_so(tmp_path: Path) -> None:
    place = str(ledger_in(tmp_path, 0))
    done = invoke("list", "--dir", place)
    assert (done.exit_code, done.stdout) == (0, "")
    assert "no campaign yet" in done.stderr
    assert json.loads(invoke("list", "--dir", place, "--json").stdout) == []


def test_a_simulated_winner_is_marked(tmp_path: Path) -> None:
    begun = opened()
    with assemble.writable(tmp_path) as ledger:
        for provenance in (begun.provenance, replace(begun.provenance, simulated="a simulated SGLang")):
            campaign = ledger.open(replace(begun, provenance=provenance))
            ledger.append(campaign, ended(BASELINE.id))
    simulated, real = invoke("list", "--dir", str(tmp_path)).stdout.splitlines()[1:]
    assert simulated.rstrip().endswith("none (simulated)")
    assert real.rstrip().endswith("none")


def test_the_lock_tells_what_runs_from_what_was_interrupted(tmp_path: Path) -> None:
    place = str(ledger_in(tmp_path, 1))
    assert "interrupted" in invoke("list", "--dir", place).stdout
    with assemble.writable(tmp_path) as ledger:
        newest = ledger.open(opened())
        shown = invoke("list", "--dir", place).stdout.splitlines()[1:]
        states = {row["id"]: row["running"] for row in json.loads(invoke("list", "--dir", place, "--json").stdout)}
    assert [("running" in line, "interrupted" in line) for line in shown] == [(True, False), (False, True)]
    assert [campaign for campaign, running in states.items() if running] == [newest]


@pytest.mark.parametrize("command", ["report", "export"])
def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path, command: str) -> None:
    place = ledger_in(tmp_path, 1)
    error = invoke(command, "--dir", str(place), "--out", str(tmp_path / "none" / "x.html")).exception
    assert isinstance(error, InputError)
    assert error.message.startswith("--out: ")
    assert not (tmp_path / "none").exists()


def test_the_help_of_report_says_where_each_form_goes() -> None:
    text = " ".join(invoke("report", "--help").output.split())
    assert "html goes to DIR/CAMPAIGN.html, and md, json and csv to standard output" in text


WINNER = SimpleNamespace(campaign="c1", candidate="ab12", label="draft k=3")
PROMOTION = SimpleNamespace(winner=WINNER, file="/etc/systemd/system/llm.service.d/50-spectune.conf", number=2)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, object], None]:
    """Puts an answer in place of what a command would do to a service."""
    ledger_in(tmp_path, 1)
    monkeypatch.chdir(tmp_path)

    def answer(name: str, result: object) -> None:
        monkeypatch.setattr(assemble, name, lambda *words: result)

    return answer


def test_promote_tells_programs_what_it_did_and_how_to_undo_it(service: Callable[[str, object], None]) -> None:
    service("promote", PROMOTION)
    told = json.loads(invoke("promote", "--dir", ".", "--json").stdout)
    assert told["promoted"] is True
    assert (told["candidate"], told["file"], told["number"]) == ("ab12", PROMOTION.file, 2)
    assert told["undo"].startswith("spectune rollback --unit ")
    service("promote", None)
    told = json.loads(invoke("promote", "--dir", ".", "--json").stdout)
    assert (told["promoted"], told["file"], told["undo"]) == (False, None, None)


def test_rollback_tells_programs_what_it_undid(service: Callable[[str, object], None]) -> None:
    service("rollback", SimpleNamespace(words="as before the promotion", promotion=PROMOTION))
    told = json.loads(invoke("rollback", "--unit", "llm.service", "--dir", "none", "--json").stdout)
    assert (told["undone"], told["file"], told["unit"]) == ("promotion", PROMOTION.file, "llm.service")
    assert told["again"] == "spectune promote c1"
    service("rollback", SimpleNamespace(words="put back", promotion=None))
    told = json.loads(invoke("rollback", "--unit", "llm.service", "--json").stdout)
    assert (told["undone"], told["file"], told["again"]) == ("what was cut off", None, None)
