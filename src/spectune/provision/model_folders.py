"""Models as Hugging Face folders, which Python engines take, or as names on a hub, which they fetch themselves."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from spectune.domain.errors import InputError
from spectune.provision.nearest import nearest_file

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_SMALL = 1 << 20
"""Files up to this size are read for the digest: configuration, index, generation config, templates."""


def resolve(name: str, role: str) -> str:
    """What to give to the engine: the absolute path of a folder, or a hub's name as it is.

    Raises:
        InputError: neither; says what was probably meant.
    """
    path = Path(name).expanduser().absolute()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise InputError(f"{role}: {path} holds no config.json", "Name the folder of a Hugging Face model.")
        return str(path)
    if path.exists():
        raise InputError(
            f"{role}: {path} is a file", "Name the folder of a Hugging Face model, or its name on the hub."
        )
    if _HUB_NAME.fullmatch(name):
        return name
    raise InputError(
        f"{role}: there is no folder {path}{nearest_file(path)}",
        "Name the folder of a Hugging Face model, or its name on the hub (organisation/model).",
    )


def config(model: str) -> dict[str, Any]:
    """The model's config.json; empty for a hub's name or a file that is no JSON object."""
    try:
        found = json.loads((Path(model) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def files(model: str) -> tuple[Path, ...]:
    """The files of a folder, sorted; none for a hub's name."""
    folder = Path(model)
    if not folder.is_dir():
        return ()
    return tuple(sorted(path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts))


def size(model: str) -> int:
    """Bytes of all weights; 0 for a hub's name."""
    return sum(path.stat().st_size for path in files(model) if path.suffix in {".safetensors", ".bin", ".pt", ".pth"})


def digest(model: str) -> str:
    """SHA-256 over names and sizes of all files and the text of the small ones. Weights of hundreds of gigabytes are
    not read: that would take longer than a campaign. For a hub's name: of the name."""
    found = hashlib.sha256()
    if not Path(model).is_dir():
        found.update(model.encode())
    for path in files(model):
        bytes_ = path.stat().st_size
        found.update(f"{path.relative_to(model)}\n{bytes_}\n".encode())
        if bytes_ <= _SMALL:
            found.update(path.read_bytes())
    return found.hexdigest()
