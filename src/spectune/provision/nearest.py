"""Names the file that was probably meant."""

from __future__ import annotations

import difflib
from pathlib import Path


def nearest_file(missing: Path, suffix: str = "") -> str:
    """Words to append to "there is no X": the nearest name beside it, or how far the path exists; "" without a clue.

    Args:
        suffix: names that end so are preferred.
    """
    parent = missing.parent
    if not parent.is_dir():
        existing = next((above for above in parent.parents if above.is_dir()), None)
        if existing is None:
            return ""
        return f"; {parent} does not exist (only {existing} does){_meant(_close(parent, existing, ''), existing)}"
    return _meant(_close(missing, parent, suffix), parent)


def _close(missing: Path, directory: Path, suffix: str) -> list[str]:
    try:
        names = sorted(entry.name for entry in directory.iterdir())
    except OSError:
        return []
    preferred = [name for name in names if suffix and name.lower().endswith(suffix)]
    first_missing = missing.relative_to(directory).parts[0]
    near = difflib.get_close_matches(first_missing, preferred or names, n=1, cutoff=0.5)
    return near or (preferred if len(preferred) == 1 else [])


def _meant(names: list[str], directory: Path) -> str:
    return f"; did you mean {directory / names[0]}?" if names else ""
