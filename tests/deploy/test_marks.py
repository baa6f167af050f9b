from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from spectune.deploy.guard import Process, read_process, send
from spectune.deploy.marks import environment, marked, owner_tag
from spectune.deploy.process import LocalProcesses
from tests.contracts.deployer import new_mark

SLEEPER = "import signal, sys, time; sys.argv[1:] and signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True)"

Sleeper = subprocess.Popen[bytes]
StartSleeper = Callable[..., Sleeper]


@pytest.fixture
def start() -> Iterator[StartSleeper]:
    """Starts a process with variables of its own, which ignores SIGTERM when told to be stubborn."""
    sleepers: list[Sleeper] = []

    def sleeper(stubborn: bool = False, **env: str) -> Sleeper:
        command = [sys.executable, "-I", "-S", "-c", SLEEPER + "; time.sleep(60)", *(["stubborn"] if stubborn else [])]
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.PIPE)
        sleepers.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield sleeper
    for process in sleepers:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_only_marked_processes_are_swept(deployer: LocalProcesses, start: StartSleeper) -> None:
    mark = new_mark()
    left = start(SPECTUNE_MARK=mark, SPECTUNE_OWNER="999999999:1")
    nameless = start(SPECTUNE_MARK=mark)
    bystander = start()
    other = start(SPECTUNE_MARK="other-" + mark)
    ours = start(SPECTUNE_MARK=mark, SPECTUNE_OWNER=owner_tag())
    ended = deployer.sweep(mark)
    assert sorted(ended) == sorted(
        f"{row.name} (pid {row.pid}, mark {mark})" for row in (of(left.pid, ended), of(nameless.pid, ended))
    )
    assert left.wait(20) == nameless.wait(20) == -signal.SIGTERM
    assert bystander.poll() is other.poll() is ours.poll() is None


def of(pid: int, ended: tuple[str, ...]) -> Process:
    process = read_process(pid)
    assert process is not None, ended
    return process


def test_a_stubborn_process_is_killed_after_the_grace(deployer: LocalProcesses, start: StartSleeper) -> None:
    mark = new_mark()
    stubborn = start(stubborn=True, SPECTUNE_MARK=mark)
    started = time.monotonic()
    assert len(deployer.sweep(mark)) == 1
    assert 0.9 < time.monotonic() - started < 20
    assert stubborn.wait(20) == -signal.SIGKILL


def test_an_owner_that_is_a_zombie_is_dead(deployer: LocalProcesses, start: StartSleeper) -> None:
    mark = new_mark()
    owner = start()
    ticks = of(owner.pid, ()).ticks
    start(SPECTUNE_MARK=mark, SPECTUNE_OWNER=f"{owner.pid}:{ticks}")
    (one,) = marked(mark)
    assert one.owned
    os.kill(owner.pid, signal.SIGKILL)
    os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)
    (one,) = marked(mark)
    assert not one.owned


def test_an_owner_whose_pid_was_reused_is_dead(start: StartSleeper) -> None:
    mark = new_mark()
    start(SPECTUNE_MARK=mark, SPECTUNE_OWNER=f"{os.getpid()}:1")
    (one,) = marked(mark)
    assert not one.owned


@pytest.mark.parametrize("tag", ["", "12", "a:b", ":", "1:", "-1:2", "9" * 30 + ":1"])
def test_owners_that_make_no_sense_are_dead(start: StartSleeper, tag: str) -> None:
    mark = new_mark()
    start(SPECTUNE_MARK=mark, SPECTUNE_OWNER=tag)
    (one,) = marked(mark)
    assert not one.owned


def test_a_reused_pid_is_not_signalled(start: StartSleeper) -> None:
    sleeper = start()
    row = of(sleeper.pid, ())
    row.ticks -= 1
    send(row, signal.SIGKILL)
    time.sleep(0.05)
    assert sleeper.poll() is None
    row.ticks += 1
    send(row, signal.SIGKILL)
    assert sleeper.wait(20) == -signal.SIGKILL
    send(row, signal.SIGKILL)


def test_the_environment_of_a_process_that_is_gone_is_empty() -> None:
    assert environment(999_999_999) == {}


@pytest.mark.parametrize(
    ("name", "seen"), [(b"plain", "plain"), (b"a) S 1 (b", "a) S 1 (b"), (b"sp ace", "sp ace"), (b"\xff", "�")]
)
def test_names_with_brackets_and_blanks(name: bytes, seen: str) -> None:
    process = Process(7, b"7 (" + name + b") S 3 5 " + b"0 " * 16 + b"4242 0 99 0\n")
    assert (process.name, process.state, process.parent, process.group) == (seen, "S", 3, 5)
    assert (process.ticks, process.rss_pages, process.alive) == (4242, 99, True)
