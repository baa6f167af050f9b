"""Whatever is wrong ends with one clear message and the right exit code, and nothing runs afterwards."""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from spectune import assemble
from tests.end_to_end.conftest import SPECTUNE, Campaign, Desk

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]


def expect_end(desk: Desk, code: int, *expected: str, apart: bool = False) -> None:
    """Runs a campaign that must fail: with this code, these words, no traceback, and no server left.

    Args:
        apart: in a process of its own.
    """
    done = (desk.run if apart else desk.call)("run", "campaign.yaml")
    text = done.stdout + done.stderr
    assert done.returncode == code, text
    assert "Traceback" not in text
    for part in expected:
        assert part in re.sub(r"\s+", " ", text), text
    assert not desk.servers()


def test_an_unknown_key_with_the_nearest_valid_one(desk: Desk, campaign: Campaign) -> None:
    campaign(servise={"x": 1})
    expect_end(desk, 2, "campaign.yaml, line", "unknown key 'servise'; did you mean 'service'?")
    assert not desk.runs.exists() or not list(desk.runs.glob("*.html"))


def test_an_impossible_value(desk: Desk, campaign: Campaign) -> None:
    campaign(budget__minutes=-1)
    expect_end(desk, 2, "'budget.minutes' should be greater than 0, found -1")


def test_an_unknown_engine_setting_with_the_nearest_valid_one(desk: Desk, campaign: Campaign) -> None:
    campaign(search__knobs={"thread": [1, 2]})
    expect_end(desk, 2, "search.knobs.thread: ", "Did you mean 'threads'?")


def test_a_draft_model_that_would_be_ignored(desk: Desk, campaign: Campaign, tiny_pair: tuple[Path, Path]) -> None:
    campaign(service__args={"threads": 1, "model-draft": str(tiny_pair[1])})
    expect_end(desk, 2, "ignored")


def test_a_missing_model_names_the_nearest_file(desk: Desk, campaign: Campaign) -> None:
    campaign(service__model=str(desk.folder / "targett.gguf"))
    expect_end(desk, 2, "there is no file", "target.gguf")


def test_a_missing_binary(desk: Desk, campaign: Campaign) -> None:
    campaign(service__binary=str(desk.folder / "llama-sever"))
    expect_end(desk, 2, "llama-sever")


def test_a_weight_for_a_level_that_is_not_measured(desk: Desk, campaign: Campaign) -> None:
    campaign(objective={"weights": {8: 1.0}})
    expect_end(desk, 2, "objective.weights names 8 users")


def test_a_port_that_another_program_has(desk: Desk, campaign: Campaign) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        campaign(service__port=port)
        expect_end(desk, 3, f"127.0.0.1:{port} is taken by", f"pid {os.getpid()}", apart=True)


def test_a_server_that_exits_at_once(desk: Desk, campaign: Campaign, tiny_pair: tuple[Path, Path]) -> None:
    broken = desk.folder / "broken.gguf"
    broken.write_bytes(tiny_pair[0].read_bytes()[:20_000])
    campaign(service__model=str(broken))
    expect_end(desk, 3, "model-broken")


def test_a_server_that_never_gets_ready(desk: Desk, campaign: Campaign, llama_server: Path) -> None:
    stuck = desk.folder / "stuck-server"
    stuck.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec {llama_server} --version\nexec sleep 600\n')
    stuck.chmod(0o755)
    campaign(service__binary=str(stuck), service__ready_timeout_s=1.5)
    expect_end(desk, 3, "never-ready")


def test_a_ledger_of_a_newer_version(desk: Desk, campaign: Campaign) -> None:
    campaign()
    with assemble.writable(desk.runs):
        pass
    with closing(sqlite3.connect(desk.runs / "ledger.sqlite")) as raw, raw:
        raw.execute("insert into spectune_migrations values (99, 'from the future', '9.9')")
    expect_end(desk, 2, "newer")


def test_another_settings_file_does_not_silently_go_on(desk: Desk, campaign: Campaign) -> None:
    campaign()
    run = desk.start("run", "campaign.yaml")
    while not desk.servers():
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)
    run.kill()
    run.wait()
    campaign(workload__max_tokens=16)
    expect_end(desk, 2, "was interrupted", "--new")


def test_a_full_disk(desk: Desk, campaign: Campaign) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    campaign()
    disk = desk.folder / "small"
    disk.mkdir()
    # A mount namespace of its own, so that nothing is left mounted whatever happens.
    script = f'mount -t tmpfs -o size=220k none "{disk}" && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", *SPECTUNE, "run", "campaign.yaml", "--dir", str(disk)]
    done = subprocess.run(command, check=False, cwd=desk.folder, capture_output=True, text=True, timeout=170)
    if "unshare" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 3, done.stderr
    assert "no space left" in done.stderr.lower()
    assert "Traceback" not in done.stderr
    assert not desk.servers()


def test_a_process_of_its_own_ends_the_same_way(desk: Desk, campaign: Campaign) -> None:
    campaign(servise={"x": 1})
    here, there = desk.call("run", "campaign.yaml"), desk.run("run", "campaign.yaml")
    assert (here.returncode, here.stdout, here.stderr) == (there.returncode, there.stdout, there.stderr)
    assert here.returncode == 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("show",), "there is no ledger"),
        (("report", "x"), "there is no ledger"),
        (("run", "none.yaml"), "No such file"),
        (("frobnicate",), "No such command"),
        (("bench", "http://127.0.0.1:1"), "nothing answers"),
        (("bench", "not a url"), ""),
        (("verify", "http://127.0.0.1:1"), "nothing answers"),
    ],
)
def test_commands_without_their_object(desk: Desk, words: tuple[str, ...], expected: str) -> None:
    done = desk.call(*words)
    assert done.returncode == (3 if expected == "nothing answers" else 2), done.stderr
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
