"""Which engine a command line starts, and where its flags begin."""

from __future__ import annotations

import re
from collections.abc import Sequence

from spectune.units.options import PYTHON

_MODULES = {
    "sglang.launch_server": ("sglang", ()),
    "sglang.cli.main": ("sglang", ("serve",)),
    "sglang": ("sglang", ("serve",)),
    "spectune.sim.sglang": ("sglang", ()),
    "vllm.entrypoints.openai.api_server": ("vllm", ()),
    "vllm.entrypoints.cli.main": ("vllm", ("serve",)),
    "vllm": ("vllm", ("serve",)),
}
_SCRIPTS = (
    (re.compile(r"(?:.*/)?sglang/launch_server\.py"), "sglang", ()),
    (re.compile(r"(?:.*/)?vllm/entrypoints/openai/api_server\.py"), "vllm", ()),
    (re.compile(r"(?:.*/)?vllm"), "vllm", ("serve",)),
    (re.compile(r"(?:.*/)?sglang"), "sglang", ("serve",)),
)
_PYTHON = re.compile(r"python(?:\d+(?:\.\d+)*)?(?:t|d)?")


def base(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def is_python(path: str) -> bool:
    return bool(_PYTHON.fullmatch(base(path)))


def engine_of(words: Sequence[str]) -> tuple[str, int] | None:
    """The engine's adapter name and the index of its first flag; None where these words start no engine.

    Raises:
        InputError: an option of python that is not known here.
    """
    name = base(words[0])
    if name == "llama-server":
        return "llama.cpp", 1
    if name in {"vllm", "sglang"}:
        return (name, 2) if tuple(words[1:2]) == ("serve",) else None
    if not is_python(words[0]):
        return None
    if "-m" in words[1:] and (at := _module_at(words)) is not None:
        return _served(_MODULES.get(words[at]), words, at)
    at = PYTHON.skip(words)
    if at == len(words):
        return None
    for pattern, engine, entry in _SCRIPTS:
        if pattern.fullmatch(words[at]):
            return _served((engine, entry), words, at)
    return None


def module_command(module: str, rest: Sequence[str]) -> tuple[str, int] | None:
    """The same for words that name a module and its arguments; the index counts from the module's name."""
    return _served(_MODULES.get(module), [module, *rest], 0)


def _module_at(words: Sequence[str]) -> int | None:
    """Index of the module's name behind -m; None where -m belongs to something else."""
    at = words.index("-m", 1)
    return at + 1 if PYTHON.skip(words[:at]) == at and at + 1 < len(words) else None


def _served(known: tuple[str, tuple[str, ...]] | None, words: Sequence[str], at: int) -> tuple[str, int] | None:
    if known is None:
        return None
    engine, entry = known
    first = at + 1 + len(entry)
    return (engine, first) if tuple(words[at + 1 : first]) == entry else None


def engine_of_image(image: str, args: Sequence[str]) -> tuple[str, int] | None:
    """The engine that an image starts by itself, and how many of the words behind its name are not yet flags."""
    repository, _, tag = image.partition("@")[0].rpartition(":")
    if not repository or "/" in tag:
        repository, tag = image.partition("@")[0], ""
    name = base(repository)
    if name.startswith("vllm-openai"):
        return None if args and base(args[0]) in {"vllm", "python", "python3", "bash", "sh"} else ("vllm", 0)
    if name == "llama.cpp" and tag.startswith("server"):
        return "llama.cpp", 0
    if name == "llama.cpp" and tag.startswith("full") and tuple(args[:1]) in {("--server",), ("-s",)}:
        return "llama.cpp", 1
    return None
