"""A service under a real systemd, tuned over a real ssh from the command line: the simulated SGLang as a unit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import spectune
from tests.support.testhost.host import CannotBoot
from tests.systemd.box import Box, box

NAME = "sglang-qwen.service"
HIDDEN = ("/root", "/home", "/srv", "/mnt", "/opt", "/tmp")
"""Folders of this machine that a test host has of its own."""
UNIT = """\
# Written by hand, and to stay so.
[Unit]
Description=Qwen

[Service]
Environment=PYTHONPATH={path} PYTHONDONTWRITEBYTECODE=1
Environment=SPECTUNE_SIM_LOAD_SECONDS=1 SPECTUNE_SIM_PROFILE=hand-run
ExecStart=/usr/bin/python3 -m spectune.sim.sglang --model-path /srv/qwen \\
    --tp 4 --speculative-algorithm NEXTN \\
    --speculative-num-steps 1 --speculative-eagle-topk 1 --speculative-num-draft-tokens 2 \\
    --mem-fraction-static 0.85 --port 30000
Restart=on-failure
"""

pytestmark = [pytest.mark.systemd, pytest.mark.slow, pytest.mark.timeout(400)]


@dataclass
class Desk:
    """A user's folder, and the host that they serve from."""

    folder: Path
    box: Box

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "SPECTUNE_SSH_CONFIG": str(self.box.config)}

    def start(self, *words: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "spectune", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, cwd=self.folder, env=self.env, stdout=pipe, stderr=pipe, text=True)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def campaign(self) -> None:
        """Turns what `init` has written into a campaign of a minute."""
        file = self.folder / "qwen.yaml"
        document = yaml.safe_load(file.read_text())
        document["search"] = {"speculation": [{"method": "mtp", "depths": [1, 2, 3]}]}
        document["workload"] = {"concurrency": [1, 2], "temperatures": [0.0], "max_tokens": 32, "ignore_eos": True}
        document["budget"] = {"minutes": 4, "cell_seconds": 1.2, "confirm_pairs": 1, "trials": 12}
        file.write_text(yaml.safe_dump(document))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    paths = (str(Path(spectune.__file__).parent.parent), sysconfig.get_paths()["purelib"])
    if any(path.startswith(HIDDEN) for path in paths):
        pytest.skip("the checkout is in a folder that test hosts do not see")
    folder = tmp_path_factory.mktemp("desk")
    try:
        with box(tmp_path_factory.mktemp("box")) as made:
            made.host.put("/srv/qwen/config.json", "{}")
            made.unit(NAME, UNIT.format(path=":".join(paths)))
            if made.host.run(
                "env", f"PYTHONPATH={':'.join(paths)}", "/usr/bin/python3", "-c", "import uvloop"
            ).returncode:
                pytest.skip("the test host's own Python is not the one that the packages are for")
            yield Desk(folder, made)
    except CannotBoot as error:
        pytest.skip(f"no systemd can be booted here: {error}")


def test_from_the_unit_to_the_promotion_and_back(desk: Desk) -> None:
    before, own = desk.box.files(NAME), desk.box.start(NAME)
    at = ("--remote", "box", "--unit", NAME)
    wrote = desk.run("init", "qwen.yaml", *at)
    assert wrote.returncode == 0, wrote.stderr
    checked = desk.run("check", "qwen.yaml")
    assert checked.returncode == 0, checked.stderr
    assert "mtp k=1" in checked.stdout
    assert "its users get no answers while it is down" in checked.stdout
    desk.campaign()
    started = desk.box.start(NAME)
    too_soon = desk.run("run", "qwen.yaml", "--promote")
    assert too_soon.returncode == 2
    assert "no winner could be promoted: it was measured on" in too_soon.stderr
    assert desk.box.start(NAME) == started

    ended = desk.run("run", "qwen.yaml", "--promote", "--force", "a simulated server, in a test")
    assert ended.returncode == 0, ended.stderr
    assert "longer than on the host itself" in ended.stderr
    assert "promoted mtp k=" in ended.stderr
    now = desk.box.argv(NAME)
    changed = [(old, new) for old, new in zip(own, now, strict=True) if old != new]
    steps = own.index("--speculative-num-steps") + 1
    assert changed == [("1", now[steps]), ("2", str(int(now[steps]) + 1))]
    after = desk.box.files(NAME)
    assert set(after) - set(before) == {f"{NAME}.d", f"{NAME}.d/50-spectune.conf"}
    assert after[NAME] == before[NAME]

    shown = desk.run("status", *at)
    assert "promoted  1: mtp k=" in shown.stdout
    refused = desk.run("promote")
    assert refused.returncode == 2
    assert "simulated" in refused.stderr
    again = desk.run("promote", "--force", "once more")
    assert "promoted already" in again.stdout

    undone = desk.run("rollback", *at)
    assert undone.returncode == 0, undone.stderr
    assert desk.box.files(NAME) == before
    assert desk.box.argv(NAME) == own


def test_killed_it_is_undone_by_rollback(desk: Desk) -> None:
    before, own = desk.box.files(NAME), desk.box.start(NAME)
    at = ("--remote", "box", "--unit", NAME)
    desk.run("init", "qwen.yaml", *at, "--force")
    desk.campaign()
    run = desk.start("run", "qwen.yaml")
    deadline = time.monotonic() + 60
    while "--enable-metrics" not in desk.box.argv(NAME) and time.monotonic() < deadline:
        time.sleep(0.1)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert "--enable-metrics" in desk.box.argv(NAME)
    refused = desk.run("init", "other.yaml", *at)
    assert "rollback" in refused.stderr
    undone = desk.run("rollback", *at)
    assert undone.returncode == 0, undone.stderr
    assert "cut off" in undone.stdout
    assert desk.box.files(NAME) == before
    assert desk.box.argv(NAME) == own


def test_ctrl_c_puts_the_service_back(desk: Desk) -> None:
    before, own = desk.box.files(NAME), desk.box.start(NAME)
    desk.run("init", "qwen.yaml", "--remote", "box", "--unit", NAME, "--force")
    desk.campaign()
    run = desk.start("run", "qwen.yaml", "--new")
    deadline = time.monotonic() + 60
    while "--enable-metrics" not in desk.box.argv(NAME) and time.monotonic() < deadline:
        time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "runs again as before" in err
    assert desk.box.files(NAME) == before
    assert desk.box.argv(NAME) == own
