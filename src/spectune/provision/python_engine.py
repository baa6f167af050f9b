"""Engines that are Python packages: which Python runs them, their version, and the flags that they know."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spectune.domain.errors import HostError, InputError
from spectune.provision.nearest import nearest_file

_HELP_TIMEOUT_S = 300.0
"""Importing an engine with its CUDA libraries takes a minute on a cold disk."""
_VERSION = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"


@dataclass(frozen=True, slots=True)
class Installed:
    """An engine as it is installed.

    Attributes:
        binary: the Python, or the engine's own console program.
        entry: words between the binary and the flags.
        version: of the package, as its metadata tells; "" where it does not.
        help: text of the server's own --help; "" where it could not be asked.
    """

    binary: Path
    entry: tuple[str, ...]
    version: str
    help: str


def find(binary: str, program: str, env: Mapping[str, str] = os.environ) -> Path:
    """The program to run: a path, a name on PATH; for "auto" the engine's console program on PATH, else python3.

    Raises:
        InputError: there is none.
    """
    path = env.get("PATH")
    if binary == "auto":
        found = shutil.which(program, path=path) or shutil.which("python3", path=path)
        if found is None:
            raise InputError(f"neither {program} nor python3 is on PATH", "Name the Python that it is installed in.")
        return Path(found).absolute()
    if "/" not in binary:
        named = shutil.which(binary, path=path)
        if named is None:
            raise InputError(f"no program {binary} on PATH", "Name the path of the Python that the engine runs in.")
        return Path(named).absolute()
    # Not resolved: a virtual environment's python is a link, and the link is what makes it one.
    file = Path(binary).expanduser().absolute()
    if file.is_dir():
        raise InputError(f"{file} is a directory", f"Name the Python in it ({file / 'bin' / 'python'}?).")
    if not file.is_file():
        raise InputError(
            f"there is no program {file}{nearest_file(file, '')}", "Name the Python that the engine runs in."
        )
    return file


def ask(
    binary: Path,
    entry: Sequence[str],
    packages: Sequence[str],
    help_flag: str = "--help",
    timeout_s: float = _HELP_TIMEOUT_S,
) -> Installed:
    """What is installed.

    Args:
        packages: distributions by which the engine comes; the first one that is there counts.
        help_flag: with which the server lists its flags, for which it imports all of itself; "" does not ask.

    Raises:
        InputError: the package is not in that Python.
        HostError: the program can't be run.
    """
    version = _version(binary, packages)
    text = _run([str(binary), *entry, help_flag], timeout_s).stdout if help_flag else ""
    return Installed(binary, tuple(entry), version, text if "--" in text else "")


def _version(binary: Path, packages: Sequence[str]) -> str:
    python = binary if "python" in binary.name else _interpreter(binary)
    if python is None:
        return ""
    for package in packages:
        done = _run([str(python), "-c", _VERSION, package], 60.0)
        if done.returncode == 0:
            return done.stdout.strip()
    first = packages[0]
    raise InputError(
        f"{first} is not installed in {python}",
        f"Name the Python of the environment that it is installed in: {python} -m pip show {first} must find it.",
    )


def _interpreter(script: Path) -> Path | None:
    """The Python that a console program names in its first line; None where it is something else."""
    try:
        with script.open("rb") as file:
            first = file.readline(512).decode(errors="replace").strip()
    except OSError as error:
        raise HostError(f"cannot read {script}: {error.strerror}") from error
    words = first.removeprefix("#!").split()
    python = Path(words[0]) if first.startswith("#!") and words else None
    return python if python is not None and "python" in python.name and python.is_file() else None


def _run(argv: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise HostError(f"{' '.join(argv)} did not answer within {timeout_s:g} s") from error
    except OSError as error:
        raise HostError(f"cannot start {argv[0]}: {error.strerror}", "Is it executable?") from error
