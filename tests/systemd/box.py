"""A test host with a service on it, reached over ssh as a user reaches one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from spectune.assemble.clock import SystemClock
from spectune.assemble.ways import Way
from spectune.domain.deployment import Launch
from spectune.domain.hosts import Host, HostAddress
from spectune.domain.ports import Clock
from spectune.domain.service_state import Endpoint
from spectune.hosts import journal
from spectune.hosts.ssh import Ssh
from spectune.systemd.deployer import SystemdDeployer
from spectune.systemd.guard import Caller, Drain, ServiceGuard
from spectune.systemd.records import Records
from spectune.systemd.unit import ManagedUnit
from tests.contracts.deployer import fake_server
from tests.hosts.sshd import make_key
from tests.support.testhost.host import Host as TestHost
from tests.support.testhost.host import booted

SSHD = """\
HostKey /etc/ssh/test_host_key
AuthorizedKeysFile /etc/ssh/test_id.pub
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
SetEnv HOME=/root XDG_RUNTIME_DIR=/run/user/0
LogLevel ERROR
"""
# ssh ends its proxy with SIGHUP; an sshd whose nsenter is gone would stay a zombie, for which the box's halt waits.
CLIENT = """\
Host box
  ProxyCommand sh -c "trap '' HUP; nsenter -t {pid} -m -p -n -u -i -C /usr/sbin/sshd -i -f /etc/ssh/test_sshd_config"
  User root
  IdentityFile {folder}/id
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {folder}/known_hosts
"""
PORT = 8080
FAKE = "/srv/fake_server.py"
PYTHON = "/usr/bin/python3"


@dataclass(frozen=True)
class Box:
    """A test host.

    Attributes:
        host: from the inside.
        config: ssh configuration in which it is called "box".
    """

    host: TestHost
    config: Path

    def down(self, at_once: bool) -> None:
        """Stops the host in order, or as a power loss would."""
        self.host.down(at_once)

    def up(self) -> None:
        """Boots the host again, on the disk that it had."""
        before = self.host.pid
        self.host.up()
        self.run("mkdir", "-p", "/run/sshd")
        text = self.config.read_text()
        self.config.write_text(text.replace(f"nsenter -t {before} ", f"nsenter -t {self.host.pid} "))

    def run(self, *argv: str) -> str:
        return self.host.run(*argv).stdout.strip()

    def unit(self, name: str, text: str) -> None:
        """Writes a unit file and has it read."""
        self.host.put(f"/etc/systemd/system/{name}", text)
        assert self.host.run("systemctl", "daemon-reload").returncode == 0

    def files(self, name: str) -> dict[str, bytes]:
        """Every file of a unit, and its folder of drop-ins, which counts even when it is empty."""
        root = self.host.root / "etc/systemd/system"
        found = {name: (root / name).read_bytes()}
        folder = root / f"{name}.d"
        if folder.is_dir():
            found[folder.name] = b""
        return found | {f"{folder.name}/{path.name}": path.read_bytes() for path in folder.glob("*")}

    def argv(self, name: str) -> list[str]:
        """The command line of the running main process; empty where none runs."""
        pid = self.run("systemctl", "show", "-p", "MainPID", "--value", name)
        if pid in {"", "0"}:
            return []
        text = self.host.run("cat", f"/proc/{pid}/cmdline").stdout
        return text.rstrip("\0").split("\0")

    def start(self, name: str) -> list[str]:
        """Starts a unit, and returns the command line once it runs: systemd's child is a systemd before that."""
        self.run("systemctl", "start", name)
        deadline = time.monotonic() + 40
        while (found := self.argv(name))[:1] != [PYTHON]:
            assert time.monotonic() < deadline, found
        return found

    def active(self, name: str) -> str:
        return self.run("systemctl", "show", "-p", "ActiveState", "--value", name)


@contextmanager
def box(folder: Path) -> Iterator[Box]:
    """Raises CannotBoot."""
    with booted() as host:
        for name in ("host_key", "id"):
            make_key(folder / name)
        host.run("mkdir", "-p", "/run/sshd")
        host.put("/etc/ssh/test_sshd_config", SSHD)
        host.put("/etc/ssh/test_host_key", (folder / "host_key").read_text(), 0o600)
        host.put("/etc/ssh/test_id.pub", (folder / "id.pub").read_text())
        host.put(FAKE, fake_server().read_text())
        (folder / "known_hosts").write_text(f"box {(folder / 'host_key.pub').read_text()}")
        (folder / "config").write_text(CLIENT.format(pid=host.pid, folder=folder))
        yield Box(host, folder / "config")


def address(found: Box) -> HostAddress:
    return HostAddress("box", config=str(found.config))


def fake_unit(*options: str, port: int = PORT, more: str = "") -> str:
    """A unit file whose service is the fake server."""
    command = " ".join([PYTHON, FAKE, *options, "--port", str(port)])
    return f"# A comment that stays.\n[Unit]\nDescription=Answers\n\n[Service]\nExecStart={command}\n{more}"


def quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def whole_command(launch: Launch, variables: Mapping[str, str]) -> str:
    """An editor that writes the launch's command line as it is."""
    lines = [f"Environment={quoted(f'{name}={value}')}\n" for name, value in {**launch.env, **variables}.items()]
    command = " ".join(map(quoted, launch.argv))
    return f"# Written by spectune\n[Service]\n{''.join(lines)}ExecStart=\nExecStart={command}\n"


@dataclass
class Bench:
    """A unit with all that works on it.

    Attributes:
        way: the unit's port, brought here.
        clock: of the one that works on it.
        user: the unit is one of root's own service manager.
        drain: when the service may be stopped.
        between: a host that stands between it and the real one, to disturb it.
        said: what was told to the user.
    """

    box: Box
    ssh: Ssh
    name: str
    way: Way
    said: list[str] = field(default_factory=list)
    clock: Clock = field(default_factory=SystemClock)
    between: Host | None = None
    user: bool = False
    drain: Drain = field(default_factory=Drain)
    guard_now: ServiceGuard = field(init=False)

    @property
    def unit(self) -> ManagedUnit:
        return ManagedUnit(self.host, self.name, self.clock, "box", self.user)

    @property
    def host(self) -> Host:
        return self.ssh if self.between is None else self.between

    def journal(self, invocation: str) -> str:
        return journal.read(self.ssh, self.name, invocation)

    def deployer(self) -> SystemdDeployer:
        return SystemdDeployer(
            self.unit,
            PORT,
            whole_command,
            self.way.pages,
            self.journal,
            before_change=self.way.mend,
            say=lambda mark, text: self.said.append(text),
        )

    @property
    def records(self) -> Records:
        return Records(ManagedUnit(self.ssh, self.name, self.clock, "box"))

    def guard(self, token: str = "token1", timeout_s: float = 10.0) -> ServiceGuard:
        """A new guard; `guard_now` is the latest."""
        self.guard_now = ServiceGuard(
            self.unit,
            Endpoint(PORT, "/health", timeout_s),
            self.way.fetch,
            self.journal,
            Caller("tester@here", token),
            self.said.append,
            self.drain,
        )
        return self.guard_now

    def launch(self, *options: str, ready_timeout_s: float = 30.0) -> Launch:
        argv = (PYTHON, FAKE, "--port", str(PORT), *options)
        return Launch(argv, {}, self.way.url, "/health", ("/health",), None, "m", ready_timeout_s)
