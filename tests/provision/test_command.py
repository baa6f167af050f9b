from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from spectune.domain.errors import HostError
from spectune.provision.command import Runner

CHATTY = (
    "import os, time\nprint(os.getpid(), flush=True)\nwhile True:\n    time.sleep(0.05)\n    print('x', flush=True)"
)
# A C program dies of SIGPIPE here; Python ignores it unless told otherwise.
CHATTY = "import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\n" + CHATTY
PARENT = """
import os, sys
from pathlib import Path
from spectune.provision.command import Runner
lock = os.open("/dev/null", os.O_RDONLY)
runner = Runner(Path(sys.argv[1]), os.environ, lock)
runner.run([sys.executable, "-c", sys.argv[2]], lambda line: print(line, flush=True))
"""


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    lock = os.open("/dev/null", os.O_RDONLY)
    yield Runner(tmp_path / "log", {**os.environ}, lock)
    os.close(lock)


def gone(pid: int) -> bool:
    for _ in range(100):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_both_streams_are_heard_logged_and_returned(runner: Runner) -> None:
    heard: list[str] = []
    output = runner.run(["sh", "-c", "echo out; echo err >&2; printf '\\377 bytes\\n'; exit 3"], heard.append)
    assert output.code == 3
    assert heard == ["out", "err", "\ufffd bytes"]
    assert output.tail.splitlines() == heard
    assert runner.log.read_text().splitlines()[1:-1] == ["out", "err"]


def test_log_grows_over_commands(runner: Runner) -> None:
    runner.run(["echo", "one"])
    runner.run(["echo", "two"])
    assert runner.log.read_text() == "$ echo one\none\n$ echo two\ntwo\n"


def test_tail_is_the_end(runner: Runner) -> None:
    lines = runner.run(["seq", "5000"]).tail.splitlines()
    assert lines[-1] == "5000"
    assert len(lines) == 400


def test_no_such_program(runner: Runner) -> None:
    with pytest.raises(HostError, match="cannot start /no/such"):
        runner.run(["/no/such"])


def test_what_ends_us_ends_the_command(runner: Runner) -> None:
    pids: list[int] = []

    def interrupt(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run([sys.executable, "-c", CHATTY], interrupt)
    assert gone(pids[0])


def test_a_command_ends_by_itself_after_we_were_killed(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", PARENT, str(tmp_path / "log"), CHATTY]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert psutil.pid_exists(child)
        parent.kill()
    assert gone(child)
