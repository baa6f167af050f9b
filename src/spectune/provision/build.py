"""Compiles llama-server from an unpacked llama.cpp: with which tools, how many jobs, and what went wrong."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spectune.domain.errors import BuildFailed, InputError
from spectune.provision.command import Output, Runner
from spectune.provision.failures import JOBS_VARIABLE, cause, telling_lines
from spectune.provision.progress import Meter
from spectune.provision.pypi import install_tools

BYTES_PER_JOB: Final = 1_500_000_000
"""Memory that a compiler takes for the largest files of llama.cpp, about."""

_OLDEST_CMAKE: Final = (3, 14)
_OLDEST_NINJA: Final = (1, 8)
_TOOL_PACKAGES: Final = {"cmake": "cmake>=3.28,<5", "ninja": "ninja>=1.11,<2"}


@dataclass(frozen=True, slots=True)
class Tools:
    """Paths of the programs to build with."""

    cmake: str
    ninja: str


def job_count(cores: int, available_bytes: int, env: Mapping[str, str]) -> int:
    """Compile jobs at a time: one per core as far as memory lasts, or what $SPECTUNE_BUILD_JOBS says.

    Raises:
        InputError: the variable is not a positive number.
    """
    if asked := env.get(JOBS_VARIABLE):
        if not asked.isdecimal() or int(asked) < 1:
            raise InputError(f"{JOBS_VARIABLE}={asked} is not a number of jobs", f"set {JOBS_VARIABLE}=2, say")
        return int(asked)
    return max(1, min(cores, available_bytes // BYTES_PER_JOB))


def need_compiler(env: Mapping[str, str]) -> None:
    """Checks for a compiler before anything is fetched.

    Raises:
        BuildFailed: there is none.
    """
    for variable, programs, package in (
        ("CXX", ("c++", "g++", "clang++"), "g++"),
        ("CC", ("cc", "gcc", "clang"), "gcc"),
    ):
        named = env.get(variable, "").split()[:1]
        if not any(shutil.which(program, path=env.get("PATH")) for program in named or programs):
            missing = f"{named[0]} (from {variable})" if named else " or ".join(programs)
            raise BuildFailed(
                f"llama.cpp has to be compiled, and there is no compiler: {missing} is not on PATH",
                f"install one (Debian, Ubuntu: `apt install {package}`; Fedora: `dnf install gcc-c++`), "
                "or name an existing llama-server",
            )


def find_tools(fetched: Path, runner: Runner) -> Tools:
    """cmake and ninja from PATH where new enough, else fetched from the package index into `fetched`.

    Raises:
        HostError: they have to be fetched and can't be.
    """
    oldest = {"cmake": _OLDEST_CMAKE, "ninja": _OLDEST_NINJA}
    paths = {name: _new_enough(name, least, runner) for name, least in oldest.items()}
    missing = tuple(_TOOL_PACKAGES[name] for name, path in paths.items() if path is None)
    if missing and not all((fetched / "bin" / name).exists() for name, path in paths.items() if path is None):
        install_tools(missing, fetched, runner)
    return Tools(*(paths[name] or str(fetched / "bin" / name) for name in ("cmake", "ninja")))


def configure(source: Path, tree: Path, flags: tuple[str, ...], tools: Tools, runner: Runner) -> None:
    """Runs cmake, unless this tree is already configured with these flags.

    Raises:
        BuildFailed: cmake finds something missing.
    """
    stamp = tree / ".spectune-configured"
    wanted = "\n".join((tools.cmake, tools.ninja, *flags))
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    shutil.rmtree(tree, ignore_errors=True)
    argv = [
        tools.cmake,
        "-S",
        str(source),
        "-B",
        str(tree),
        "-G",
        "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={tools.ninja}",
        *flags,
    ]
    output = runner.run(argv)
    if output.code != 0:
        raise failure(output, runner.log)
    stamp.write_text(wanted, encoding="utf-8")


def build(target: str, tree: Path, jobs: int, tools: Tools, runner: Runner, meter: Meter) -> None:
    """Runs ninja, which goes on where an earlier, interrupted run stopped. Where the compiler runs out of memory it is
    tried again with half the jobs.

    Raises:
        BuildFailed: it doesn't compile.
    """
    while True:
        output = runner.run([tools.ninja, "-C", str(tree), "-j", str(jobs), target], meter.heard)
        if output.code == 0:
            return
        known = cause(output.tail)
        if known is None or not known.memory or jobs == 1:
            raise failure(output, runner.log)
        jobs //= 2
        meter.progress(f"{meter.what}: the compiler ran out of memory, trying again with -j {jobs}", None)


def failure(output: Output, log: Path) -> BuildFailed:
    """The error of a failed command, its cause named where it is known."""
    known = cause(output.tail)
    what = known.what if known else f"exit code {output.code}"
    advice = known.advice if known else "name an existing llama-server instead, or report this with the log"
    return BuildFailed(
        f"llama.cpp could not be built: {what}\n{telling_lines(output.tail)}", f"{advice}; the whole log is {log}"
    )


def _new_enough(name: str, least: tuple[int, int], runner: Runner) -> str | None:
    path = shutil.which(name, path=runner.env.get("PATH"))
    if path is None:
        return None
    output = runner.run([path, "--version"])
    found = re.search(r"(\d+)\.(\d+)", output.tail)
    if output.code != 0 or found is None or (int(found[1]), int(found[2])) < least:
        return None
    return path
