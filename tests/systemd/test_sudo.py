"""A login whose sudo wants a password: asked for once, and found nowhere afterwards."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectune.assemble.clock import SystemClock
from spectune.domain.hosts import HostAddress
from spectune.hosts.ssh import Ssh
from tests.systemd.box import Bench, Box
from tests.systemd.faults import PROMOTED, Old, campaign

pytestmark = [pytest.mark.systemd]

WORD = "open-sesame-92"


@pytest.fixture
def config(shared_box: Box, tmp_path: Path) -> Iterator[Path]:
    """ssh configuration of a login whose sudo wants a password."""
    shared_box.run("useradd", "--create-home", "--shell", "/bin/bash", "careful")
    shared_box.run("sh", "-c", f"echo careful:{WORD} | chpasswd")
    shared_box.host.put("/etc/sudoers.d/careful", "careful ALL=(ALL) ALL\n", 0o440)
    path = tmp_path / "ssh_config"
    path.write_text(shared_box.config.read_text().replace("User root", "User careful"))
    yield path
    shared_box.run("rm", "-f", "/etc/sudoers.d/careful")
    shared_box.run("userdel", "--remove", "careful")


def typed(config: Path, word: str, *words: str) -> tuple[int, str]:
    """Runs a command on a terminal on which a password is typed when it is asked for."""
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "spectune", *words]
    env = {**os.environ, "SPECTUNE_SSH_CONFIG": str(config)}
    with subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True) as process:
        os.close(theirs)
        shown, deadline = b"", time.monotonic() + 60
        while time.monotonic() < deadline and select.select([ours], [], [], 60)[0]:
            try:
                chunk = os.read(ours, 4096)
            except OSError:  # the terminal's other side is closed
                break
            shown += chunk
            if b"sudo password on box: " in chunk:
                os.write(ours, word.encode() + b"\n")
    os.close(ours)
    return process.returncode, shown.decode(errors="replace")


@pytest.mark.slow
def test_a_campaign_asks_once_and_keeps_nothing(bench: Bench, config: Path) -> None:
    old = Old.of(bench)
    asked: list[str] = []
    lines: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return WORD

    with Ssh(HostAddress("box", config=str(config)), SystemClock(), ask) as ssh:
        bench.between = ssh
        campaign(bench)
        lines += bench.box.run("ps", "-eo", "args").splitlines()
        assert bench.box.argv(bench.name) == PROMOTED
        bench.guard("token2").rollback()
    bench.between = None
    assert old.is_back(bench)
    assert asked == ["sudo password on box: "]
    lines += bench.box.run("journalctl", "--no-pager").splitlines()
    assert any("careful" in line and "sudo" in line for line in lines)
    assert not any(WORD in line for line in [*lines, *bench.said])
    assert bench.box.host.run("grep", "-rl", WORD, "/var/lib/spectune", "/etc", "/tmp", "/run").stdout == ""


def test_it_is_typed_on_a_terminal(bench: Bench, config: Path) -> None:
    Old.of(bench)
    code, shown = typed(config, WORD, "rollback", "--remote", "box", "--unit", bench.name)
    assert shown.count("sudo password on box: ") == 1
    assert "nothing to undo" in shown
    assert WORD not in shown
    assert code == 2


# What is said is that of the host, which tests/hosts/test_journal.py has too.
@pytest.mark.slow
def test_a_wrong_word_typed(bench: Bench, config: Path) -> None:
    _, shown = typed(config, "wrong", "rollback", "--remote", "box", "--unit", bench.name)
    assert "the password is wrong" in shown


@pytest.mark.slow
def test_without_a_terminal_it_says_what_to_do(bench: Bench, config: Path) -> None:
    Old.of(bench)
    env = {**os.environ, "SPECTUNE_SSH_CONFIG": str(config)}
    argv = [sys.executable, "-m", "spectune", "rollback", "--remote", "box", "--unit", bench.name]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, check=False)
    assert "sudo on box wants a password, and nobody can be asked" in done.stderr
    assert "careful ALL=(root) NOPASSWD: ALL" in done.stderr
