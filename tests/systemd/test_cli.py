"""What the commands refuse before anything is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from spectune.assemble.clock import SystemClock
from spectune.cli.main import app
from spectune.domain.errors import CommandFailed, InputError, SpectuneError
from spectune.domain.hosts import Ran
from spectune.hosts.local import Local
from spectune.systemd.unit import ManagedUnit


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "c.yaml", "--promote"], "--promote needs a systemd unit"),
        (["run", "c.yaml", "--force", "x"], "--force goes with --promote"),
        (["init", "d.yaml", "--remote", "llm-two"], "--remote goes with --unit"),
        (["init", "d.yaml", "--edit-unit"], "--edit-unit goes with --unit"),
        (["run", "c.yaml", "--between", "1-5"], "'1-5' is no span of the day"),
        (["run", "c.yaml", "--between", "01:00-01:00"], "the window 01:00-01:00 begins when it ends"),
        (["promote", "--edit-unit"], "there is no ledger in spectune-runs"),
        (["rollback", "--unit", "a b.service"], "is not the name of a service unit"),
        (["status", "--unit", "x.timer/../y"], "is not the name of a service unit"),
        (["run", "unit.yaml"], "service.port must be the port of the unit"),
    ],
)
def test_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(yaml.safe_dump({"name": "c", "search": {"knobs": {"threads": [1]}}}))
    service = {"engine": "sglang", "unit": "llm.service", "model": "/m"}
    Path("unit.yaml").write_text(yaml.safe_dump({"name": "c", "service": service}))
    error = CliRunner().invoke(app, words).exception
    assert isinstance(error, InputError)
    assert message in error.message


def test_a_machine_without_systemd_says_so() -> None:
    error = CliRunner().invoke(app, ["status", "--unit", "llm.service"]).exception
    assert isinstance(error, SpectuneError)
    assert "llm.service" in error.message
    assert error.advice


@pytest.mark.parametrize(
    "said",
    [
        "Failed to connect to bus: Host is down",
        "Failed to connect to system scope bus via local transport: No such file or directory",
        "System has not been booted with systemd as init system (PID 1). Can't operate.",
    ],
)
def test_a_host_without_systemd_gets_advice(said: str) -> None:
    class Without(Local):
        def run(self, *words: object, **more: object) -> Ran:
            return Ran(1, b"", said.encode(), 0.1)

    host = Without(SystemClock())
    with pytest.raises(CommandFailed, match="systemd does not run there") as caught:
        ManagedUnit(host, "llm", SystemClock(), "box").show()
    assert "--remote" in caught.value.advice
    with pytest.raises(CommandFailed, match="no service manager") as caught:
        ManagedUnit(host, "llm", SystemClock(), "box", user=True).show()
    assert "enable-linger" in caught.value.advice
