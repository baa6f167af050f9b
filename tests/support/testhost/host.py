"""A host with a systemd of its own, booted in namespaces of this machine within a second or two."""

from __future__ import annotations

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
_UNSHARE = (
    "setpriv",
    "--pdeathsig",
    "KILL",
    "unshare",
    "--mount",
    "--pid",
    "--net",
    "--uts",
    "--ipc",
    "--fork",
    "--kill-child",
)
_NEEDED = ("unshare", "nsenter", "setpriv", "findmnt", "systemctl")


class CannotBoot(Exception):
    """This machine can't make the namespaces that a test host needs."""


@dataclass(frozen=True, slots=True)
class Host:
    """A running test host.

    Attributes:
        pid: its process 1, as this machine sees it.
    """

    pid: int

    @property
    def root(self) -> Path:
        """Its root folder, seen from this machine."""
        return Path(f"/proc/{self.pid}/root")

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in it, at most a minute."""
        enter = ["nsenter", "-t", str(self.pid), "-m", "-p", "-n", "-u", "-i", "-C"]
        return subprocess.run([*enter, *argv], capture_output=True, text=True, timeout=60, check=False)

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
        [*_UNSHARE, "--fork", "--kill-child", "bash", str(BOOT), str(folder), str(cgroup)],
        stdin=subprocess.DEVNULL,
        stdout=console,
        stderr=subprocess.STDOUT,
    )
    try:
        yield _ready(outer)
    except CannotBoot as error:
        console.seek(0)
        raise CannotBoot(f"{error}: {console.read()[-500:].decode(errors='replace')}") from error
    finally:
        _halt(outer)
        console.close()
        Path(console.name).unlink()
        shutil.rmtree(folder, ignore_errors=True)
        _remove(cgroup)


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


def _ready(outer: subprocess.Popen[bytes], within_s: float = 40.0) -> Host:
    state = "not started"
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if outer.poll() is not None:
            raise CannotBoot(f"its process 1 ended with {outer.returncode}")
        init = _process_1(outer)
        if init is not None:
            host = Host(init)
            state = host.run("systemctl", "is-system-running", "--wait").stdout.strip()
            if state in {"running", "degraded"}:
                return host
        time.sleep(0.05)
    raise CannotBoot(f"it did not boot within {within_s:g} s, state {state}")


def _process_1(outer: subprocess.Popen[bytes]) -> int | None:
    """Its process 1 once that is systemd; None before."""
    try:
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        if children and Path(f"/proc/{children[0]}/comm").read_text().strip() == "systemd":
            return int(children[0])
    except OSError:
        pass
    return None


def _halt(outer: subprocess.Popen[bytes]) -> None:
    if outer.poll() is None:
        init = _process_1(outer)
        if init is not None:
            os.kill(init, signal.SIGRTMIN + 3)  # systemd: halt.target
        try:
            outer.wait(15 if init is not None else 0.1)
        except subprocess.TimeoutExpired:
            outer.kill()  # takes process 1 with it
            outer.wait(15)


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
