"""Bringing the load generator to another host: this very code, and the compiled packages that it needs."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import sysconfig
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from spectune import __version__
from spectune.domain.errors import InputError
from spectune.domain.hosts import Host, Ran

_ASK_S, _UNPACK_S = 60.0, 600.0
_PACKAGES = ("httptools", "orjson", "uvloop")
_OWN = ("domain", "load")
_KINDS = {".py", ".so"}
# What a Python calls extension modules that it can load: its version, the processor, the system and its C library.
_ABI = str(sysconfig.get_config_var("SOABI"))
_LOOK = """
for python in "$@"; do
  "$python" -I -c 'import sys, sysconfig; print(sysconfig.get_config_var("SOABI"), sys.executable)' 2>/dev/null
done
true
"""
_FOLDER = 'd="${XDG_CACHE_HOME:-${HOME:?is not set}/.cache}/spectune"; printf %s "$d"; [ ! -d "$d/$1" ] || printf "\\n"'
_UNPACK = """
umask 077 && mkdir -p -- "$1" || exit 1
new=$1/.new-$$
mkdir -- "$new" && tar -xzf - -C "$new" && { mv -T -- "$new" "$1/$2" 2>/dev/null || [ -d "$1/$2" ]; }
code=$?; rm -rf -- "$new"; exit $code
"""
_VERSION = "import spectune, spectune.load.remote; print(spectune.__version__)"
_TRY = "import sys; sys.path.insert(0, sys.argv[1]); import spectune.load.remote"
_RUN = "import sys; sys.path.insert(0, sys.argv[1]); from spectune.load.remote import main; main()"


def installed(host: Host, where: str, python: str) -> tuple[str, ...]:
    """What runs load.remote with a spectune that is installed on the host.

    Args:
        python: of the host, with that spectune.

    Raises:
        InputError: it has none, or another version than this one.
        HostError: the host can't be reached.
    """
    told = host.run([python, "-c", _VERSION], timeout_s=_ASK_S)
    if told.code == 0 and told.text.strip() == __version__:
        return (python, "-m", "spectune.load.remote")
    why = f"it has spectune {told.text.strip()}" if told.code == 0 else _last(told)
    raise InputError(
        f"{python} on {where} can't send the load of this spectune {__version__}: {why}",
        f"Install the same there: {python} -m pip install spectune=={__version__}",
    )


def brought(host: Host, where: str, pythons: Sequence[str] = ()) -> tuple[str, ...]:
    """Brings the load generator to a host, unless it is there already, and returns what runs it there.

    It lies in the login's own cache folder (~/.cache/spectune), under a name made of its content.

    Args:
        where: names the host in messages.
        pythons: of the host, tried before those on its PATH.

    Raises:
        InputError: no Python of the host can run the packages of this one.
        HostError: the host can't be reached or written to.
    """
    python = _python(host, where, pythons)
    files = dict(_files())
    name = f"load-{__version__}-{_digest(files)}"
    told = host.run(["/bin/sh", "-c", _FOLDER, "sh", name], timeout_s=_ASK_S).checked(f"asking {where} for a folder")
    folder = told.text.rstrip("\n")
    if not told.text.endswith("\n"):
        unpack = ["/bin/sh", "-c", _UNPACK, "sh", folder, name]
        host.run(unpack, input=_archive(files), timeout_s=_UNPACK_S).checked(f"unpacking the load generator on {where}")
    tried = host.run([python, "-I", "-c", _TRY, f"{folder}/{name}"], timeout_s=_ASK_S)
    if tried.code != 0:
        raise _unsuitable(where, f"{python} there can't load it: {_last(tried)}")
    return (python, "-I", "-c", _RUN, f"{folder}/{name}")


def _python(host: Host, where: str, pythons: Sequence[str]) -> str:
    usual = (f"python{sysconfig.get_python_version()}", "python3", "/usr/bin/python3")
    told = host.run(["/bin/sh", "-c", _LOOK, "sh", *dict.fromkeys((*pythons, *usual))], timeout_s=_ASK_S).text
    found = [line.partition(" ") for line in told.splitlines()]
    for abi, _, python in found:
        if abi == _ABI and python.startswith("/"):
            return python
    theirs = ", ".join(dict.fromkeys(abi for abi, _, _ in found)) or "none"
    raise _unsuitable(where, f"it needs a Python that is {_ABI}, and there is {theirs}")


def _unsuitable(where: str, why: str) -> InputError:
    return InputError(
        f"the load generator can't be sent to {where}: {why}",
        f"Install spectune {__version__} there and name its Python (measure from host:PYTHON), or measure from here.",
    )


def _last(ran: Ran) -> str:
    lines = ran.err.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {ran.code}"


def _files() -> Iterator[tuple[str, bytes]]:
    """Path in the archive and content of each file, in the same order each time."""
    own = Path(__file__).parents[1]
    yield "spectune/__init__.py", (own / "__init__.py").read_bytes()
    folders = [(own / name, own.parent) for name in _OWN]
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parent
        folders.append((folder, folder.parent))
    for folder, root in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in _KINDS and path.is_file():
                yield str(path.relative_to(root)), path.read_bytes()


def _digest(files: dict[str, bytes]) -> str:
    whole = hashlib.sha256()
    for path, data in files.items():
        whole.update(f"{path}\0{len(data)}\0".encode())
        whole.update(data)
    return whole.hexdigest()[:16]


def _archive(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=3) as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o600
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()
