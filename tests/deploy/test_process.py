from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spectune.assemble.clock import SystemClock
from spectune.deploy.guard import descendants, read_process
from spectune.deploy.listeners import is_free, place_of
from spectune.deploy.marks import marked
from spectune.deploy.process import LocalProcesses
from spectune.domain.deployment import Launch, ListenerOwner
from spectune.domain.errors import EngineFailure, FailureKind, HostError, InputError, PortTaken
from tests.contracts.deployer import LaunchMaker, new_mark
from tests.deploy.conftest import until


def launch_of(argv: tuple[str, ...], like: Launch, **env: str) -> Launch:
    return Launch(argv, env, like.url, "/health", (), None, "m", like.ready_timeout_s)


def test_a_foreign_listener_is_named(deployer: LocalProcesses, make: LaunchMaker) -> None:
    launch = make()
    foreign = subprocess.Popen(launch.argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: not is_free(place_of(launch.url)), 5)
        process = read_process(foreign.pid)
        assert process is not None
        expected = rf"127\.0\.0\.1:\d+ is taken by {process.name} \(pid {foreign.pid}\)"
        with pytest.raises(PortTaken, match=expected), deployer.deploy(launch, new_mark()):
            raise AssertionError("deployed on a foreign port")
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()


def test_a_server_left_behind_is_named_as_such(deployer: LocalProcesses, make: LaunchMaker) -> None:
    launch = make()
    env = {**os.environ, "SPECTUNE_MARK": "old/3"}
    left = subprocess.Popen(launch.argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    try:
        until(lambda: not is_free(place_of(launch.url)), 5)
        with pytest.raises(PortTaken, match="started by spectune as old/3"), deployer.deploy(launch, new_mark()):
            raise AssertionError("deployed on a taken port")
    finally:
        left.kill()
        left.wait()


@pytest.mark.parametrize("ours", [("--listen-after", "60"), ("--listen-after", "0.6"), ("--exit-code", "1")])
def test_a_port_taken_during_the_start(make: LaunchMaker, tmp_path: Path, ours: tuple[str, ...]) -> None:
    launch, mark = make(*ours), new_mark()
    place = place_of(launch.url)
    taker = socket.socket()

    class TakesThePort(SystemClock):
        def now(self) -> float:
            # Readiness asks for the time of day once, when the server has just been started.
            taker.bind((place.host, place.port))
            taker.listen()
            return super().now()

    other = LocalProcesses(tmp_path, TakesThePort(), 1.0)
    with (
        taker,
        pytest.raises(PortTaken, match=rf"pid {os.getpid()}"),
        other.deploy(launch, mark),
    ):
        raise AssertionError("deployed behind a foreign listener")
    assert not marked(mark)


def test_a_silent_server_is_never_ready(deployer: LocalProcesses, make: LaunchMaker) -> None:
    with (
        pytest.raises(EngineFailure, match=r"listens on .* but /health does not answer") as caught,
        deployer.deploy(make("--mute", ready_timeout_s=1.0), new_mark()),
    ):
        raise AssertionError("deployed a silent server")
    assert caught.value.kind is FailureKind.NEVER_READY
    assert "without a new log line for 1 s" in caught.value.message


def test_a_server_that_does_not_listen_is_never_ready(deployer: LocalProcesses, make: LaunchMaker) -> None:
    with (
        pytest.raises(EngineFailure, match="does not listen") as caught,
        deployer.deploy(make("--listen-after", "60", ready_timeout_s=1.0), new_mark()),
    ):
        raise AssertionError("deployed a server that does not listen")
    assert caught.value.kind is FailureKind.NEVER_READY
    assert "first line" in caught.value.log_tail


def test_a_growing_log_buys_time(deployer: LocalProcesses, make: LaunchMaker) -> None:
    launch = make("--load-s", "2", "--chatter-s", "2", ready_timeout_s=0.8)
    with deployer.deploy(launch, new_mark()) as running:
        assert running.ready_s > 1.5


def test_a_growing_log_does_not_buy_time_for_ever(deployer: LocalProcesses, make: LaunchMaker) -> None:
    launch = make("--load-s", "60", "--chatter-s", "60", ready_timeout_s=0.6)
    started = time.monotonic()
    with (
        pytest.raises(EngineFailure, match="though its log still grew"),
        deployer.deploy(launch, new_mark()),
    ):
        raise AssertionError("deployed a server that is never ready")
    assert 3.6 <= time.monotonic() - started < 30


def test_a_signal_is_named(deployer: LocalProcesses, make: LaunchMaker) -> None:
    with (
        pytest.raises(EngineFailure, match="was killed by SIGSEGV") as caught,
        deployer.deploy(make("--kill-self"), new_mark()),
    ):
        raise AssertionError("deployed a server that crashes")
    assert caught.value.kind is FailureKind.EXITED


def test_a_server_that_ignores_sigterm_is_killed_after_the_grace(deployer: LocalProcesses, make: LaunchMaker) -> None:
    launch, mark = make("--ignore-term"), new_mark()
    with deployer.deploy(launch, mark):
        leaving = time.monotonic()
    assert 0.9 <= time.monotonic() - leaving < 20
    assert not marked(mark)
    assert is_free(place_of(launch.url))


def test_a_socket_of_an_escaped_child_is_ours_and_is_closed(deployer: LocalProcesses, make: LaunchMaker) -> None:
    launch, mark = make("--escape"), new_mark()
    with deployer.deploy(launch, mark) as running:
        assert running.observe().listener is ListenerOwner.OURS
        os.kill(running.pid, signal.SIGKILL)
        until(lambda: running.observe().exit, 3)
        assert running.observe().listener is ListenerOwner.OURS
    assert not marked(mark)
    assert is_free(place_of(launch.url))


def test_the_environment_of_the_server(deployer: LocalProcesses, make: LaunchMaker) -> None:
    launch, mark = make(), new_mark()
    with deployer.deploy(launch_of(launch.argv, launch, THREADS="2"), mark) as running:
        body = running.observe(["/env"]).pages["/env"].body.splitlines()
    assert f"SPECTUNE_MARK={mark}" in body
    assert "SPT_NOENV=1" in body
    assert "THREADS=2" in body
    assert f"PATH={os.environ['PATH']}" in body


def test_a_long_log_is_read_as_head_and_tail(deployer: LocalProcesses, make: LaunchMaker) -> None:
    with deployer.deploy(make("--spam", "80000"), new_mark()) as running:
        log = running.observe().log
    assert log.startswith("first line")
    assert "of this log left out]\nline " in log
    assert "line 79999 " in log
    assert len(log) < (4 << 20) + 200


def test_a_page_that_does_not_come(deployer: LocalProcesses, make: LaunchMaker) -> None:
    with deployer.deploy(make(), new_mark()) as running:
        seen = running.observe(["/cut", "/moved", "/big", "/health"])
    assert (seen.pages["/cut"].status, seen.pages["/cut"].body) == (0, "")
    assert seen.pages["/moved"].status == 302
    assert len(seen.pages["/big"].body) == 2 << 20
    assert seen.pages["/health"].body == "ok"


def test_programs_that_can_not_be_started(deployer: LocalProcesses, make: LaunchMaker, tmp_path: Path) -> None:
    plain, garbage, orphan = tmp_path / "plain", tmp_path / "garbage", tmp_path / "orphan"
    plain.write_text("#!/bin/sh\n")
    garbage.write_bytes(b"\x7fELF not really")
    garbage.chmod(0o755)
    orphan.write_text("#!/nonexistent/shell\n")
    orphan.chmod(0o755)
    cases = [
        (tmp_path / "absent", "no program"),
        (plain, "is not executable"),
        (garbage, "exec format error"),
        (orphan, "interpreter or loader is missing"),
        (tmp_path, "is not executable"),
        (plain / "below", "no program"),
    ]
    for program, expected in cases:
        with (
            pytest.raises(HostError, match=expected) as caught,
            deployer.deploy(launch_of((str(program),), make()), new_mark()),
        ):
            raise AssertionError(f"deployed {program}")
        assert str(program) in caught.value.message


def test_a_command_line_that_is_too_long(deployer: LocalProcesses, make: LaunchMaker) -> None:
    with (
        pytest.raises(HostError, match="Argument list too long"),
        deployer.deploy(launch_of(("/bin/true", "x" * (1 << 20)), make()), new_mark()),
    ):
        raise AssertionError("deployed")


def test_a_log_folder_that_can_not_be_written(make: LaunchMaker, tmp_path: Path, clock: SystemClock) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(HostError, match=r"can't write server logs to .*/file/logs"),
        LocalProcesses(tmp_path / "file" / "logs", clock).deploy(make(), new_mark()),
    ):
        raise AssertionError("deployed without a log")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "spectune-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_the_hosts_failure(small_disk: Path, make: LaunchMaker, clock: SystemClock) -> None:
    deployer = LocalProcesses(small_disk, clock, 1.0)
    # The fake server dies of its failing prints, as many servers do.
    with (
        pytest.raises(HostError, match="is full"),
        deployer.deploy(make("--spam", "8000"), new_mark()),
    ):
        raise AssertionError("deployed on a full disk")
    with pytest.raises(HostError, match="is full"), deployer.deploy(make(), new_mark()):
        raise AssertionError("deployed on a full disk")


def test_a_url_without_a_host(deployer: LocalProcesses) -> None:
    for url in ("8080", "http://", "ftp://127.0.0.1", "http://127.0.0.1:99999"):
        launch = Launch(("/bin/true",), {}, url, "/health", (), None, "m")
        with pytest.raises(InputError, match=url), deployer.deploy(launch, new_mark()):
            raise AssertionError(f"deployed on {url}")


def test_no_guard_and_no_descriptor_is_left(deployer: LocalProcesses, make: LaunchMaker) -> None:
    def mine() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(descendants(os.getpid()))

    before = mine()
    for _ in range(2):
        with deployer.deploy(make(), new_mark()):
            pass
        with pytest.raises(EngineFailure), deployer.deploy(make("--exit-code", "0"), new_mark()):
            raise AssertionError("deployed a server that exits")
        with pytest.raises(HostError), deployer.deploy(launch_of(("/nowhere",), make()), new_mark()):
            raise AssertionError("deployed nothing")
    assert mine() == before


def test_variables_that_the_launch_unsets_are_not_inherited(
    deployer: LocalProcesses, make: LaunchMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINE_ARG_DEPTH", "9")
    monkeypatch.setenv("KEPT", "yes")
    script = 'echo "[$ENGINE_ARG_DEPTH][$KEPT][$GIVEN]"; exit 3'
    launch = replace(launch_of(("/bin/sh", "-c", script), make(), GIVEN="too"), unset=("ENGINE_ARG_*",))
    with pytest.raises(EngineFailure) as caught, deployer.deploy(launch, new_mark()):
        pass
    assert "[][yes][too]" in caught.value.log_tail
