"""Whatever happens to spectune or to the guard: the server and all it started end, and the port is free."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from spectune.deploy.guard import descendants, read_process
from spectune.deploy.listeners import is_free, place_of
from spectune.deploy.marks import marked
from spectune.deploy.process import LocalProcesses
from spectune.domain.deployment import Launch, ListenerOwner
from tests.contracts.deployer import LaunchMaker, new_mark
from tests.deploy.conftest import StartParent, until

WITHIN_S = 20.0


def alive(pid: int) -> bool:
    process = read_process(pid)
    return process is not None and process.alive


def escaped(launch: Launch, folder: Path) -> int:
    """Pid of the child that left the server's session."""
    found = re.search(r"escaped (\d+)", "".join(path.read_text() for path in (folder / "logs").iterdir()))
    assert found, f"no escaped child of {launch.url}"
    return int(found[1])


def children_of(pid: int) -> list[int]:
    return [process.pid for process in descendants(pid) if process.parent == pid]


def guard_of(server: int) -> int:
    process = read_process(server)
    assert process is not None
    return process.parent


def assert_nothing_is_left(launch: Launch, mark: str, within_s: float = WITHIN_S) -> None:
    until(lambda: not marked(mark) and is_free(place_of(launch.url)), within_s)


def test_killing_spectune_ends_server_and_escaped_children(
    make: LaunchMaker, start_parent: StartParent, tmp_path: Path
) -> None:
    launch, mark = make("--escape"), new_mark()
    parent, server = start_parent(launch, mark)
    child, guard = escaped(launch, tmp_path), guard_of(server)
    assert os.getsid(child) == child
    parent.kill()
    assert_nothing_is_left(launch, mark)
    assert not alive(server)
    assert not alive(child)
    until(lambda: not alive(guard), WITHIN_S)


def test_killing_spectune_ends_a_server_that_ignores_sigterm(make: LaunchMaker, start_parent: StartParent) -> None:
    launch, mark = make("--ignore-term", "--escape"), new_mark()
    parent, _ = start_parent(launch, mark, grace_s=30)
    parent.kill()
    assert_nothing_is_left(launch, mark)


def test_a_helper_that_inherited_the_pipe_does_not_keep_the_server(
    make: LaunchMaker, start_parent: StartParent
) -> None:
    launch, mark = make(), new_mark()
    parent, server = start_parent(launch, mark, helper=True)
    guard = guard_of(server)
    until(lambda: len(children_of(parent.pid)) == 2, WITHIN_S)
    (helper,) = set(children_of(parent.pid)) - {guard}
    parent.kill()
    assert_nothing_is_left(launch, mark)
    assert alive(helper)
    os.kill(helper, signal.SIGKILL)


def test_killing_spectune_while_the_server_loads(make: LaunchMaker, start_parent: StartParent) -> None:
    launch, mark = make("--load-s", "60"), new_mark()
    parent, _ = start_parent(launch, mark, wait=False)
    until(lambda: not is_free(place_of(launch.url)), WITHIN_S)
    parent.kill()
    assert_nothing_is_left(launch, mark)


@pytest.mark.parametrize("after_s", [0.0, 0.03, 0.06, 0.1, 0.2])
def test_killing_spectune_at_any_moment_of_the_start(
    make: LaunchMaker, start_parent: StartParent, after_s: float
) -> None:
    launch, mark = make(), new_mark()
    parent, _ = start_parent(launch, mark, wait=False)
    time.sleep(after_s)
    parent.kill()
    parent.wait()
    time.sleep(0.3)
    assert_nothing_is_left(launch, mark)


def test_killing_the_guard_ends_the_server_and_the_exit_is_seen(deployer: LocalProcesses, make: LaunchMaker) -> None:
    launch, mark = make(), new_mark()
    with deployer.deploy(launch, mark) as running:
        os.kill(guard_of(running.pid), signal.SIGKILL)
        until(lambda: running.observe().exit, WITHIN_S)
        seen = running.observe()
        assert seen.exit is not None
        assert seen.exit.code == -signal.SIGKILL
        assert seen.listener is ListenerOwner.NONE
    assert_nothing_is_left(launch, mark, 0.1)


def test_killing_the_guard_leaves_no_escaped_child_after_the_block(
    deployer: LocalProcesses, make: LaunchMaker, tmp_path: Path
) -> None:
    launch, mark = make("--escape"), new_mark()
    with deployer.deploy(launch, mark) as running:
        child = escaped(launch, tmp_path)
        os.kill(guard_of(running.pid), signal.SIGKILL)
        until(lambda: not alive(running.pid), WITHIN_S)
        assert running.observe().listener is ListenerOwner.OURS
    assert not alive(child)
    assert_nothing_is_left(launch, mark, 0.1)


def test_killing_guard_and_spectune_leaves_the_rest_to_sweep(
    deployer: LocalProcesses, make: LaunchMaker, start_parent: StartParent, tmp_path: Path
) -> None:
    launch, mark = make("--escape"), new_mark()
    parent, server = start_parent(launch, mark)
    child, guard = escaped(launch, tmp_path), guard_of(server)
    assert deployer.sweep(mark) == ()
    os.kill(guard, signal.SIGSTOP)
    parent.kill()
    parent.wait()
    os.kill(guard, signal.SIGKILL)
    until(lambda: not alive(server), WITHIN_S)
    assert alive(child)
    (ended,) = deployer.sweep(mark[:10])
    assert f"(pid {child}, mark {mark})" in ended
    assert_nothing_is_left(launch, mark, 0.1)


@pytest.mark.parametrize("options", [(), ("--ignore-term",)])
def test_ctrl_c_once(make: LaunchMaker, start_parent: StartParent, options: tuple[str, ...]) -> None:
    launch, mark = make(*options), new_mark()
    parent, _ = start_parent(launch, mark)
    parent.send_signal(signal.SIGINT)
    assert parent.wait(WITHIN_S) == 130
    assert_nothing_is_left(launch, mark, 0.1)


def test_a_second_ctrl_c_ends_the_grace(make: LaunchMaker, start_parent: StartParent) -> None:
    launch, mark = make("--ignore-term"), new_mark()
    parent, _ = start_parent(launch, mark, grace_s=30)
    parent.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert parent.poll() is None
    parent.send_signal(signal.SIGINT)
    assert parent.wait(WITHIN_S) == 130
    assert_nothing_is_left(launch, mark, 0.1)


def test_ctrl_c_many_times(make: LaunchMaker, start_parent: StartParent) -> None:
    launch, mark = make("--ignore-term", "--escape"), new_mark()
    parent, _ = start_parent(launch, mark)
    for _ in range(20):
        parent.send_signal(signal.SIGINT)
        time.sleep(0.005)
    parent.wait(WITHIN_S)
    assert_nothing_is_left(launch, mark)


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.1, 0.3])
def test_ctrl_c_during_the_start(make: LaunchMaker, start_parent: StartParent, after_s: float) -> None:
    launch, mark = make("--load-s", "60"), new_mark()
    parent, _ = start_parent(launch, mark, wait=False)
    time.sleep(after_s)
    parent.send_signal(signal.SIGINT)
    assert parent.wait(WITHIN_S) == 130
    assert_nothing_is_left(launch, mark, 0.1)


def test_the_terminal_does_not_reach_the_server(deployer: LocalProcesses, make: LaunchMaker) -> None:
    with deployer.deploy(make(), new_mark()) as running:
        assert os.getsid(running.pid) == running.pid
        assert os.getsid(guard_of(running.pid)) != os.getsid(0)
        assert running.observe(["/stdin"]).pages["/stdin"].body == "''"
