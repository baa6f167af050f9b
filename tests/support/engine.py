"""Gets the llama-server that tests run against; run as a program it does so with progress, ahead of the tests."""

from __future__ import annotations

import sys
from pathlib import Path

from spectune.domain.errors import SpectuneError
from spectune.provision import llama_server


def get() -> Path:
    """The server from PATH, else the cached build, else a new build (minutes)."""
    return llama_server.ensure("auto", _tell)


def _tell(text: str, fraction: float | None) -> None:
    percent = "" if fraction is None else f" {100 * fraction:.0f} %"
    sys.stderr.write(f"{text}{percent}\n")


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{get()}\n")
    except SpectuneError as error:
        sys.exit(f"{error.message}\n{error.advice}")
