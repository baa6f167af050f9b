"""What goes wrong between here and there, with a real sshd."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from spectune.assemble.clock import SystemClock
from spectune.domain.errors import (
    HostBusy,
    HostError,
    HostKeyRefused,
    HostLost,
    HostUnreachable,
    LoginRefused,
)
from spectune.domain.hosts import HostAddress
from spectune.hosts.local import Local
from spectune.hosts.ssh import Ssh
from tests.contracts.host import gone, running, sh
from tests.hosts.sshd import ALIAS, Sshd, make_key

ROOT = Path(__file__).parents[2]


def ok(host: Ssh) -> bool:
    return host.run(["true"], timeout_s=20).code == 0


def master_pid(sshd: Sshd) -> int:
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            if process.name() == "ssh" and ("ssh:" in line or str(sshd.config) in line) and connected(process, sshd):
                return process.pid
        except psutil.Error:
            continue
    raise AssertionError("no master")


def connected(process: psutil.Process, sshd: Sshd) -> bool:
    return any(one.raddr and one.raddr.port == sshd.port for one in process.net_connections("tcp"))


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def in_the_middle(host: Ssh, word: str, harm: Callable[[], None]) -> tuple[HostError, float]:
    """Does harm while a command runs: the error, and the seconds from the harm to it."""
    at: list[float] = []

    def act() -> None:
        until(lambda: running(word))
        at.append(time.monotonic())
        harm()

    thread = threading.Thread(target=act)
    thread.start()
    with pytest.raises(HostError) as caught:
        host.run(["sleep", word], timeout_s=40)
    thread.join()
    return caught.value, time.monotonic() - at[0]


def test_sshd_killed_in_the_middle(ssh: Ssh, sshd: Sshd) -> None:
    error, seconds = in_the_middle(ssh, "33.001", sshd.kill_connections)
    assert isinstance(error, HostLost)
    assert "connection to llm-two was lost while sleep ran" in error.message
    assert "before you repeat it" in error.advice
    assert seconds < 20
    assert gone("33.001")
    assert ok(ssh)


def test_sshd_gone_for_good(ssh: Ssh, sshd: Sshd) -> None:
    assert ok(ssh)
    sshd.stop()
    with pytest.raises(HostUnreachable, match=r"can't connect to llm-two: .*Connection refused"):
        ok(ssh)
    sshd.start()
    assert ok(ssh)


def test_the_master_killed_in_the_middle(ssh: Ssh, sshd: Sshd) -> None:
    error, seconds = in_the_middle(ssh, "33.002", lambda: os.kill(master_pid(sshd), signal.SIGKILL))
    assert isinstance(error, HostLost)
    assert seconds < 20
    assert gone("33.002")
    assert ok(ssh)


@pytest.mark.parametrize("harm", [signal.SIGKILL, signal.SIGTERM])
def test_the_master_killed_between_commands(ssh: Ssh, sshd: Sshd, harm: signal.Signals) -> None:
    for _ in range(2):
        assert ok(ssh)
        os.kill(master_pid(sshd), harm)
        assert ok(ssh)


def test_the_connection_killed_between_commands(ssh: Ssh, sshd: Sshd) -> None:
    for _ in range(2):
        assert ok(ssh)
        sshd.kill_connections()
        assert ok(ssh)


def test_a_connection_that_went_silent(ssh: Ssh, sshd: Sshd) -> None:
    """As when a cable is pulled: signs of life are missed."""
    stopped: list[psutil.Process] = []

    def freeze() -> None:
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess):  # others end meanwhile
                if process.name().startswith("sshd") and any(
                    one.laddr.port == sshd.port and one.raddr for one in process.net_connections("tcp")
                ):
                    process.suspend()
                    stopped.append(process)

    try:
        error, seconds = in_the_middle(ssh, "33.003", freeze)
        assert isinstance(error, HostLost)
        assert seconds < 25
        assert stopped
    finally:
        for process in stopped:
            process.resume()
    assert gone("33.003")
    assert ok(ssh)


def test_the_wrapper_killed(ssh: Ssh) -> None:
    """That is neither the command's failure nor the connection's."""

    def kill() -> None:
        os.killpg(os.getpgid(running("33.004")[-1]), signal.SIGKILL)

    error, _ = in_the_middle(ssh, "33.004", kill)
    assert isinstance(error, HostLost)
    assert "killed together with its shell" in error.message
    assert ok(ssh)


def test_a_followed_log_tells_a_lost_connection(ssh: Ssh, sshd: Sshd) -> None:
    with ssh.follow(sh("echo first; exec sleep 33.005")) as lines:
        assert next(lines) == "first"
        sshd.kill_connections()
        with pytest.raises(HostLost):
            next(lines)
    assert gone("33.005")


def test_a_changed_host_key(ssh: Ssh, sshd: Sshd) -> None:
    sshd.stop()
    make_key(sshd.folder / "host_key")
    sshd.start()
    with pytest.raises(HostKeyRefused, match="not the one that it had before") as caught:
        ok(ssh)
    assert "ssh-keygen -R llm-two" in caught.value.advice


def test_an_unknown_host_key(ssh: Ssh, sshd: Sshd) -> None:
    sshd.know("")
    with pytest.raises(HostKeyRefused, match="host key of llm-two is not known") as caught:
        ok(ssh)
    assert "fingerprint" in caught.value.advice


def test_no_such_host(sshd: Sshd, clock: SystemClock) -> None:
    with (
        Ssh(HostAddress("spectune.invalid", config=str(sshd.config)), clock) as host,
        pytest.raises(HostUnreachable, match=r"there is no host spectune\.invalid"),
    ):
        ok(host)


@pytest.mark.parametrize("address", [("nobody-there", ""), (ALIAS, "spectune-no-such-user")])
def test_no_such_user(sshd: Sshd, clock: SystemClock, address: tuple[str, str]) -> None:
    where = HostAddress(address[0], user=address[1], config=str(sshd.config))
    with Ssh(where, clock) as host, pytest.raises(LoginRefused, match="refuses the login") as caught:
        ok(host)
    assert "ssh-add" in caught.value.advice


def test_a_key_with_a_passphrase_is_not_asked_for(ssh: Ssh, sshd: Sshd) -> None:
    key = sshd.folder / "id"
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret words", "-f", key], check=True)
    began = time.monotonic()
    with pytest.raises(LoginRefused):
        ok(ssh)
    assert time.monotonic() - began < 25


def test_a_wrong_configuration(ssh: Ssh, sshd: Sshd) -> None:
    sshd.config.write_text("NoSuchOption yes\n" + sshd.config.read_text())
    with pytest.raises(HostError, match=r"can't use its configuration.*nosuchoption"):
        ok(ssh)


def test_a_port_and_a_user_of_the_address_win(sshd: Sshd, clock: SystemClock) -> None:
    sshd.config.write_text(sshd.config.read_text().replace(f"Port {sshd.port}", "Port 9"))
    with Ssh(HostAddress(ALIAS, port=sshd.port, config=str(sshd.config)), clock) as host:
        assert ok(host)


def test_a_jump_host(sshd: Sshd, clock: SystemClock) -> None:
    text = sshd.config.read_text().replace(f"Host {ALIAS}", f"Host {ALIAS} pre-host")
    sshd.config.write_text(text)
    with Ssh(HostAddress("pre-host", config=str(sshd.config)), clock) as host:
        assert ok(host)


@pytest.mark.parametrize(
    ("extra", "said"), [("ForceCommand echo only backups", "only backups"), ("ForceCommand false", "")]
)
def test_a_login_that_runs_no_commands(tmp_path: Path, clock: SystemClock, extra: str, said: str) -> None:
    sshd = Sshd(tmp_path, extra)
    sshd.start()
    try:
        with (
            Ssh(HostAddress(ALIAS, config=str(sshd.config)), clock) as host,
            pytest.raises(HostError, match=rf"runs no commands \(exit code \d\): .*{said}"),
        ):
            ok(host)
    finally:
        sshd.stop()


def test_one_session_at_a_time(tmp_path: Path, clock: SystemClock) -> None:
    sshd = Sshd(tmp_path, "MaxSessions 1")
    sshd.start()
    try:
        with Ssh(HostAddress(ALIAS, config=str(sshd.config)), clock) as host:
            for _ in range(5):
                assert ok(host)
            with host.follow(["sleep", "33.006"]):
                with pytest.raises(HostBusy, match="no more commands") as caught:
                    ok(host)
                assert "MaxSessions" in caught.value.advice
            assert ok(host)
        with (
            Ssh(HostAddress(ALIAS, config=str(sshd.config)), clock, channels=1) as host,
            host.follow(["sleep", "33.007"]),
            pytest.raises(HostBusy, match="1 commands already run"),
        ):
            host.run(["true"], timeout_s=0.2)
    finally:
        sshd.stop()


def test_profiles_that_write_do_not_disturb(ssh: Ssh) -> None:
    ran = ssh.run(sh("echo out; echo err >&2"), timeout_s=20)
    assert (ran.out, ran.err) == (b"out\n", b"err\n")


def test_the_users_own_settings_are_left_alone(ssh: Ssh, sshd: Sshd) -> None:
    """The configuration shares connections, forwards a port and names a command: not for spectune."""
    assert ssh.run(["echo", "mine"], timeout_s=20).out == b"mine\n"
    assert not list(sshd.folder.glob("own-*"))


def test_closing_leaves_nothing(sshd: Sshd, clock: SystemClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    # Paths of sockets must be short.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        with Ssh(HostAddress(ALIAS, config=str(sshd.config)), clock) as host:
            assert ok(host)
            pid = master_pid(sshd)
            (made,) = Path(folder).glob("spectune-*")
            assert made.stat().st_mode & 0o777 == 0o700
        until(lambda: not psutil.pid_exists(pid))
        assert not made.exists()
        host.close()


@pytest.mark.parametrize("over_ssh", [True, False])
def test_a_killed_spectune_ends_the_command(sshd: Sshd, over_ssh: bool) -> None:
    word = f"33.1{over_ssh:d}"
    argv = [sys.executable, "-m", "tests.hosts.killed", str(sshd.config) if over_ssh else "", "sleep", word]
    with subprocess.Popen(argv, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
        until(lambda: [pid for pid in running(word) if psutil.Process(pid).name() == "sleep"], 60)
        process.kill()
    assert gone(word)


@pytest.mark.parametrize("size", [10, 100_000])
def test_input_cut_off_never_looks_complete(ssh: Ssh, sshd: Sshd, tmp_path: Path, size: int) -> None:
    """The connection breaks while input is on its way: the command must not see its end."""
    got = tmp_path / "complete"
    reads = tmp_path / "reads"
    script = f"touch {reads}; cat >/dev/null; sleep 0.2; touch {got}"

    def harm() -> None:
        until(reads.exists)
        sshd.kill_connections()

    thread = threading.Thread(target=harm)
    thread.start()
    with pytest.raises(HostLost):
        # More than the pipes hold, and read slowly: the end is never reached.
        ssh.run(
            sh(f"head -c {size} >/dev/null; {script.replace('cat', 'sleep 3; cat')}"),
            input=bytes(20_000_000),
            timeout_s=30,
        )
    thread.join()
    time.sleep(1.5)
    assert not got.exists()


def test_a_put_cut_off_keeps_the_old_file(ssh: Ssh, sshd: Sshd, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "unit"
    path.parent.mkdir()
    path.write_bytes(b"old")

    def harm() -> None:
        until(lambda: any(one.stat().st_size > 1_000_000 for one in path.parent.glob(".spectune-*")))
        sshd.kill_connections()

    thread = threading.Thread(target=harm)
    thread.start()
    with pytest.raises(HostLost, match="writing"):
        ssh.put(str(path), bytes(400_000_000))
    thread.join()
    until(lambda: os.listdir(path.parent) == ["unit"])
    assert path.read_bytes() == b"old"


def test_local_wrapper_killed(clock: SystemClock) -> None:
    host = Local(clock)
    with pytest.raises(HostLost, match="killed together with its shell"):
        host.run(sh("kill -9 0"), timeout_s=20)
