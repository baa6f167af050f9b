"""A host with a systemd of its own, booted in namespaces of this machine within a second or two."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BOOT = Path(__file__).with_name("boot")
_UNSHARE = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--fork", "--kill-child")
_REBOOT = signal.SIGRTMIN + 5
"""Has systemd stop all units and reboot; in namespaces that ends it."""
_NEEDED = ("unshare", "nsenter", "setpriv", "findmnt", "systemctl")


class CannotBoot(Exception):
    """This machine can't make the namespaces that a test host needs."""


@dataclass(slots=True)
class Host:
    """A test host.

    Attributes:
        pid: its process 1, as this machine sees it; another one after each boot.
    """

    pid: int
    _outer: subprocess.Popen[bytes]
    _folder: Path

    @property
    def root(self) -> Path:
        """Its root folder, seen from this machine."""
        return Path(f"/proc/{self.pid}/root")

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in it, at most a minute."""
        return _run(self.pid, *argv)

    def down(self, at_once: bool) -> None:
        """Stops it in order, or at once as a power loss would; its disk stays as it is."""
        for name in ("again", "hold"):
            self._folder.with_name(f"{self._folder.name}.{name}").touch()
        os.kill(self.pid, signal.SIGKILL if at_once else _REBOOT)
        deadline = time.monotonic() + 40
        # On its way down it has another name.
        while Path(f"/proc/{self.pid}").exists():
            assert time.monotonic() < deadline, "the test host does not stop"
            _wake_visitors(self.pid)
            time.sleep(0.02)

    def up(self) -> None:
        """Boots it after `down`."""
        self._folder.with_name(f"{self._folder.name}.hold").unlink()
        self.pid = _ready(self._outer)

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        """Writes a file, and the folders above it."""
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
        target.chmod(mode)


@contextmanager
def booted() -> Iterator[Host]:
    """A test host that is gone, with everything in it, at the end.

    Raises:
        CannotBoot: no root rights, no namespaces, or no systemd to boot.
    """
    cgroup = _cgroup()
    folder = Path(tempfile.mkdtemp(prefix="testhost-"))
    console = (folder.parent / f"{folder.name}.log").open("w+b")
    outer = subprocess.Popen(
        [*_UNSHARE, "bash", str(BOOT), str(folder), str(cgroup)],
        stdin=subprocess.DEVNULL,
        stdout=console,
        stderr=subprocess.STDOUT,
    )
    try:
        yield Host(_ready(outer), outer, folder)
    except CannotBoot as error:
        console.seek(0)
        raise CannotBoot(f"{error}: {console.read()[-500:].decode(errors='replace')}") from error
    finally:
        _halt(outer)
        console.close()
        Path(console.name).unlink()
        for name in ("again", "hold"):
            folder.with_name(f"{folder.name}.{name}").unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        _remove(cgroup)


def _run(init: int, *argv: str) -> subprocess.CompletedProcess[str]:
    enter = ["nsenter", "-t", str(init), "-m", "-p", "-n", "-u", "-i", "-C"]
    return subprocess.run([*enter, *argv], capture_output=True, text=True, timeout=60, check=False)


def _cgroup() -> Path:
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        raise CannotBoot(f"needs root and {', '.join(missing or _NEEDED)}")
    found = subprocess.run(["findmnt", "-nt", "cgroup2", "-o", "TARGET"], capture_output=True, text=True, check=False)
    if not found.stdout.strip():
        raise CannotBoot("no cgroup2 is mounted")
    cgroup = Path(found.stdout.split()[0]) / f"testhost-{os.getpid()}-{time.monotonic_ns()}"
    try:
        cgroup.mkdir()
    except OSError as error:
        raise CannotBoot(f"no cgroup can be made: {error}") from error
    return cgroup


def _ready(outer: subprocess.Popen[bytes], within_s: float = 40.0) -> int:
    """Its process 1, once it has booted."""
    state = "not started"
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if outer.poll() is not None:
            raise CannotBoot(f"its process 1 ended with {outer.returncode}")
        init = _process_1(outer)
        if init is not None:
            state = _run(init, "systemctl", "is-system-running", "--wait").stdout.strip()
            if state in {"running", "degraded"}:
                return init
        time.sleep(0.05)
    raise CannotBoot(f"it did not boot within {within_s:g} s, state {state}")


def _process_1(outer: subprocess.Popen[bytes]) -> int | None:
    """Its process 1 once that is systemd; None before."""
    return _systemd_below(outer.pid)


def _systemd_below(pid: int) -> int | None:
    """The first systemd among the descendants of a process."""
    try:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return int(child)
            found = _systemd_below(int(child))
            if found is not None:
                return found
    except OSError:
        pass
    return None


def _halt(outer: subprocess.Popen[bytes]) -> None:
    if outer.poll() is None:
        init = _process_1(outer)
        if init is not None:
            os.kill(init, signal.SIGRTMIN + 3)  # systemd: halt.target
        deadline = time.monotonic() + (15 if init is not None else 0.1)
        while outer.poll() is None and time.monotonic() < deadline:
            if init is not None:
                _wake_visitors(init)
            time.sleep(0.02)
        if outer.poll() is None:
            outer.kill()  # takes process 1 with it
            outer.wait(15)


def _wake_visitors(init: int) -> None:
    """Has every nsenter into a host that goes down go on. A systemd that shuts down stops all processes for a moment:
    their nsenter stops itself with them, is not woken with them, and would keep them as zombies that are waited for."""
    mine = f"nsenter\0-t\0{init}\0".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "cmdline").read_bytes().startswith(mine) and ") T " in (folder / "stat").read_text():
                os.kill(int(folder.name), signal.SIGCONT)


def _remove(cgroup: Path) -> None:
    for _ in range(50):
        try:
            for inner in sorted(cgroup.rglob("*/"), key=lambda path: -len(path.parts)):
                if inner.is_dir():
                    inner.rmdir()
            cgroup.rmdir()
        except OSError:
            time.sleep(0.1)
        else:
            return
