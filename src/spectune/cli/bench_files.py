"""Saved runs of `spectune bench` on disk."""

from __future__ import annotations

import os
from pathlib import Path

from spectune.domain.bench_run import BenchRun
from spectune.domain.errors import HostError, InputError
from spectune.report.bench_file import dump_run, parse_run


def read_run(path: Path) -> BenchRun:
    """A saved run.

    Raises:
        InputError: when it can't be read, or is none.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}", "Save a run with: spectune bench URL --save run.json"
        ) from error
    return parse_run(text, str(path))


def write_run(run: BenchRun, path: Path) -> None:
    """Writes a run in place of what is there, at once: a kill leaves the old file or the new one.

    Raises:
        HostError: when it can't be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(dump_run(run), encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise HostError(f"cannot write {path}: {error.strerror}", "--save FILE writes it elsewhere.") from error
