from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectune.domain.errors import BuildFailed, InputError
from spectune.provision import build
from spectune.provision.build import BYTES_PER_JOB, Tools
from spectune.provision.command import Runner
from spectune.provision.progress import Meter


def program(directory: Path, name: str, script: str) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    lock = os.open("/dev/null", os.O_RDONLY)
    yield Runner(tmp_path / "log", {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}, lock)
    os.close(lock)


@pytest.fixture
def said() -> list[tuple[str, float | None]]:
    return []


@pytest.fixture
def meter(said: list[tuple[str, float | None]]) -> Meter:
    return Meter("Compiling", lambda text, fraction: said.append((text, fraction)), lambda: 0.0)


@pytest.mark.parametrize(
    ("cores", "gigabytes", "env", "jobs"),
    [
        (2, 16, {}, 2),
        (64, 16, {}, 10),
        (8, 1, {}, 1),
        (8, 0, {}, 1),
        (8, 3, {}, 2),
        (2, 1, {"SPECTUNE_BUILD_JOBS": "7"}, 7),
        (2, 16, {"SPECTUNE_BUILD_JOBS": ""}, 2),
    ],
)
def test_jobs(cores: int, gigabytes: int, env: dict[str, str], jobs: int) -> None:
    assert BYTES_PER_JOB == 1_500_000_000
    assert build.job_count(cores, gigabytes * 10**9, env) == jobs


@pytest.mark.parametrize("asked", ["0", "-1", "two", "1.5"])
def test_impossible_jobs(asked: str) -> None:
    with pytest.raises(InputError, match=f"SPECTUNE_BUILD_JOBS={asked}"):
        build.job_count(2, 10**10, {"SPECTUNE_BUILD_JOBS": asked})


def test_compiler_is_needed(tmp_path: Path) -> None:
    bin_ = tmp_path / "bin"
    env = {"PATH": str(bin_)}
    with pytest.raises(BuildFailed, match=r"there is no compiler: c\+\+ or g\+\+ or clang\+\+") as caught:
        build.need_compiler(env)
    assert "apt install g++" in caught.value.advice
    program(bin_, "clang++", "")
    with pytest.raises(BuildFailed, match="there is no compiler: cc or gcc or clang"):
        build.need_compiler(env)
    program(bin_, "gcc", "")
    build.need_compiler(env)
    with pytest.raises(BuildFailed, match=r"icpx \(from CXX\)"):
        build.need_compiler({**env, "CXX": "icpx -O2"})


def test_new_tools_are_taken_from_path(tmp_path: Path, runner: Runner) -> None:
    cmake = program(tmp_path / "bin", "cmake", "echo cmake version 3.25.1")
    ninja = program(tmp_path / "bin", "ninja", "echo 1.11.1")
    assert build.find_tools(tmp_path / "tools", runner) == Tools(cmake, ninja)


@pytest.mark.parametrize(
    ("cmake", "fetched"),
    [
        ("echo cmake version 3.10.2", True),
        ("echo cmake version 3.14.0", False),
        ("echo cmake version 4.1.0", False),
        ("exit 1", True),
        ("echo strange", True),
    ],
)
def test_old_or_broken_tools_are_fetched(
    tmp_path: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch, cmake: str, fetched: bool
) -> None:
    program(tmp_path / "bin", "cmake", cmake)
    program(tmp_path / "bin", "ninja", "echo 1.11.1")
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(build, "install_tools", lambda requirements, into, runner: asked.append(requirements))
    tools = build.find_tools(tmp_path / "tools", runner)
    assert tools.cmake == str(tmp_path / ("tools" if fetched else "") / "bin" / "cmake")
    assert asked == ([("cmake>=3.28,<5",)] if fetched else [])


def test_fetched_tools_are_kept_for_a_resumed_build(
    tmp_path: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "cmake", "exit 1")
    program(tmp_path / "bin", "ninja", "exit 1")
    program(tmp_path / "tools" / "bin", "cmake", "")
    program(tmp_path / "tools" / "bin", "ninja", "")
    monkeypatch.setattr(build, "install_tools", lambda *args: pytest.fail("fetched again"))
    assert build.find_tools(tmp_path / "tools", runner).ninja == str(tmp_path / "tools" / "bin" / "ninja")


def test_configures_once_and_again_for_other_flags(tmp_path: Path, runner: Runner) -> None:
    tree = tmp_path / "tree"
    cmake = program(tmp_path / "bin", "cmake", f'mkdir -p {tree}; echo "$*" >> {tmp_path}/calls')
    tools = Tools(cmake, "ninja")
    for flags in (("-DA=1",), ("-DA=1",), ("-DA=2",)):
        build.configure(tmp_path, tree, flags, tools, runner)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [line.split()[-1] for line in calls] == ["-DA=1", "-DA=2"]


def test_configure_fails(tmp_path: Path, runner: Runner) -> None:
    cmake = program(tmp_path / "bin", "cmake", "echo 'CMake Error: No CMAKE_CXX_COMPILER could be found.'; exit 1")
    with pytest.raises(BuildFailed, match=r"no working C\+\+ compiler") as caught:
        build.configure(tmp_path, tmp_path / "tree", (), Tools(cmake, "ninja"), runner)
    assert str(runner.log) in caught.value.advice


def test_fewer_jobs_when_memory_is_short(
    tmp_path: Path, runner: Runner, meter: Meter, said: list[tuple[str, float | None]]
) -> None:
    ninja = program(
        tmp_path / "bin",
        "ninja",
        f'echo "$4" >> {tmp_path}/jobs\n'
        '[ "$4" -le 2 ] && echo "[9/9] done" && exit 0\n'
        'echo "c++: fatal error: Killed signal terminated program cc1plus"; exit 1',
    )
    build.build("x", tmp_path, 8, Tools("cmake", ninja), runner, meter)
    assert (tmp_path / "jobs").read_text().split() == ["8", "4", "2"]
    assert said[0] == ("Compiling: the compiler ran out of memory, trying again with -j 4", None)
    assert said[-1][1] == 1.0


def test_one_job_is_the_least(tmp_path: Path, runner: Runner, meter: Meter) -> None:
    ninja = program(tmp_path / "bin", "ninja", "echo 'virtual memory exhausted: Cannot allocate memory'; exit 1")
    with pytest.raises(BuildFailed, match="ran out of memory"):
        build.build("x", tmp_path, 2, Tools("cmake", ninja), runner, meter)


def test_unknown_failure_shows_its_lines(tmp_path: Path, runner: Runner, meter: Meter) -> None:
    ninja = program(tmp_path / "bin", "ninja", "echo '[1/2] a'; echo 'a.cpp:1:1: error: strange'; exit 1")
    with pytest.raises(BuildFailed, match=r"exit code 1\na\.cpp:1:1: error: strange") as caught:
        build.build("x", tmp_path, 2, Tools("cmake", ninja), runner, meter)
    assert str(runner.log) in caught.value.advice


CMAKE_LISTS = """\
cmake_minimum_required(VERSION 3.14)
project(tiny CXX)
add_executable(tiny main.cpp other.cpp)
"""
real_tools = pytest.mark.skipif(
    not all(map(shutil.which, ("cmake", "ninja", "c++"))), reason="cmake, ninja and a C++ compiler are not all here"
)


def tiny_project(source: Path, main: str) -> Path:
    source.mkdir()
    (source / "CMakeLists.txt").write_text(CMAKE_LISTS)
    (source / "main.cpp").write_text(main)
    (source / "other.cpp").write_text("int other() { return 0; }\n")
    return source


@real_tools
def test_really_builds(tmp_path: Path, meter: Meter, said: list[tuple[str, float | None]]) -> None:
    env = {**os.environ, "NINJA_STATUS": "[%f/%t] "}
    lock = os.open("/dev/null", os.O_RDONLY)
    runner = Runner(tmp_path / "log", env, lock)
    source = tiny_project(tmp_path / "source", "int other(); int main() { return other(); }\n")
    tools = build.find_tools(tmp_path / "tools", runner)
    build.configure(source, tmp_path / "tree", ("-DCMAKE_BUILD_TYPE=Release",), tools, runner)
    build.build("tiny", tmp_path / "tree", 2, tools, runner, meter)
    assert runner.run([str(tmp_path / "tree" / "tiny")]).code == 0
    assert [fraction for _, fraction in said] == [1 / 3, 2 / 3, 1.0]
    said.clear()
    build.build("tiny", tmp_path / "tree", 2, tools, runner, meter)
    assert said == []
    os.close(lock)


@real_tools
def test_really_fails_to_compile(tmp_path: Path, meter: Meter) -> None:
    lock = os.open("/dev/null", os.O_RDONLY)
    runner = Runner(tmp_path / "log", {**os.environ, "LC_ALL": "C.UTF-8"}, lock)
    source = tiny_project(tmp_path / "source", "int main() { return missing; }\n")
    tools = build.find_tools(tmp_path / "tools", runner)
    build.configure(source, tmp_path / "tree", (), tools, runner)
    with pytest.raises(BuildFailed, match=r"missing.*was not declared in this scope"):
        build.build("tiny", tmp_path / "tree", 1, tools, runner, meter)
    os.close(lock)


@real_tools
def test_really_finds_no_compiler(tmp_path: Path) -> None:
    lock = os.open("/dev/null", os.O_RDONLY)
    runner = Runner(tmp_path / "log", {**os.environ, "LC_ALL": "C.UTF-8", "CXX": "/no/such/c++"}, lock)
    source = tiny_project(tmp_path / "source", "int main() {}\n")
    tools = build.find_tools(tmp_path / "tools", runner)
    with pytest.raises(BuildFailed, match=r"there is no working C\+\+ compiler"):
        build.configure(source, tmp_path / "tree", (), tools, runner)
    os.close(lock)
