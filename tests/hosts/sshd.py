"""A real sshd on a free port with keys and configuration of its own, and the ssh configuration that reaches it."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil

from tests.support.ports import fresh_port

ALIAS = "llm-two"
_SERVER = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/id.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
LogLevel ERROR
MaxStartups 100
SetEnv HOME={folder}
{extra}
"""
_CLIENT = """\
Host {alias} nobody-there
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/id
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  KexAlgorithms curve25519-sha256
  # What people have in their files for their own logins, and spectune has to live with:
  ControlMaster auto
  ControlPath {folder}/own-%n
  RemoteCommand echo a remote command of the user
  RequestTTY force
  LocalForward 127.0.0.1:1 127.0.0.1:1
  VisualHostKey yes
Host nobody-there
  User spectune-no-such-user
Host pre-*
  ProxyJump {alias}
"""


class Sshd:
    """Start it with `start`; `stop` ends it and all of its connections."""

    def __init__(self, folder: Path, extra: str = "") -> None:
        self.folder = folder
        self.extra = extra
        self.config = folder / "ssh_config"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = fresh_port()
        make_key(folder / "host_key")
        make_key(folder / "id")
        # As many people have it: a profile that writes, and does so for commands too.
        (folder / ".bashrc").write_text("echo welcome; echo to this host >&2\n")
        self.know((folder / "host_key.pub").read_text())
        self.config.write_text(_CLIENT.format(alias=ALIAS, port=self.port, folder=folder))

    def know(self, public_key: str) -> None:
        """Makes this the one known host key; empty: none is known."""
        line = f"[127.0.0.1]:{self.port} {public_key}" if public_key else ""
        (self.folder / "known_hosts").write_text(line)

    def start(self) -> None:
        program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        assert program, "these tests need sshd: install openssh-server"
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        config = self.folder / "sshd_config"
        config.write_text(_SERVER.format(port=self.port, folder=self.folder, extra=self.extra))
        with (self.folder / "sshd.log").open("wb") as log:
            self._process = subprocess.Popen([program, "-D", "-e", "-f", str(config)], stderr=log)
        deadline = time.monotonic() + 30
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self._process.poll() is None, (self.folder / "sshd.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def kill_connections(self) -> None:
        """Ends the processes of sshd that serve connections, as a crash would; their commands are not touched."""
        assert self._process
        for process in psutil.Process(self._process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.name().startswith("sshd"):
                    process.send_signal(signal.SIGKILL)

    def stop(self) -> None:
        if self._process and self._process.poll() is None:
            children = psutil.Process(self._process.pid).children(recursive=True)
            self._process.kill()
            self._process.wait()
            for child in children:
                with contextlib.suppress(psutil.NoSuchProcess):
                    if child.name().startswith("sshd"):
                        child.kill()


def make_key(path: Path) -> None:
    """Writes a new key pair."""
    path.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", getpass.getuser(), "-f", path], check=True)
