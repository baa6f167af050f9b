"""Files that options name: whether they can be written, and writing them."""

from __future__ import annotations

from pathlib import Path

from spectune.domain.errors import HostError, InputError


def check_file(path: Path, option: str) -> None:
    """Refuses what no file can be written to, before any work is done. Folders are not made: a typing error in one
    would else go unseen.

    Raises:
        InputError: the path is a folder, or its folder is not there; it names the option.
    """
    folder = path.absolute().parent
    if path.is_dir():
        why = "it is a folder"
    elif not folder.is_dir():
        why = f"{folder} is no folder" if folder.exists() else f"there is no folder {folder}"
    else:
        return
    raise InputError(f"{option}: {path} is no place for a file: {why}", "Name a file in a folder that is there.")


def write_file(path: Path, text: str, elsewhere: str) -> None:
    """Writes what the ledger tells.

    Args:
        elsewhere: how to write it to another place, for people.

    Raises:
        HostError: it can't be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HostError(f"cannot write {path}: {error.strerror}", f"The ledger is complete; {elsewhere}") from error
