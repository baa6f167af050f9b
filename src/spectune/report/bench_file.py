"""Saved load tests: JSON that reads back as the same values. Bounds that are not known are the text "Infinity"."""

from __future__ import annotations

import json
from functools import cache

from pydantic import ConfigDict, TypeAdapter, ValidationError

from spectune.domain.bench_run import FORMAT, BenchRun
from spectune.domain.errors import InputError

_ADVICE = "Save a run with: spectune bench URL --save run.json"


def dump_run(run: BenchRun) -> str:
    """The run as JSON, indented unless it holds records, which would make a line of every number."""
    indent = None if run.records else 2
    return _adapter().dump_json(run, indent=indent).decode() + "\n"


def parse_run(text: bytes, name: str) -> BenchRun:
    """A run from its JSON form.

    Args:
        name: of the file, for errors.

    Raises:
        InputError: when the text is no saved run, has unknown keys, or is of another form's version.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InputError(f"{name}: not JSON: {error}", _ADVICE) from error
    found = document.get("format") if isinstance(document, dict) else None
    if not isinstance(found, int) or "cells" not in document:
        raise InputError(f"{name}: not a saved run of spectune bench", _ADVICE)
    if found != FORMAT:
        advice = "Upgrade spectune." if found > FORMAT else "Measure again, or read it with the spectune that wrote it."
        raise InputError(f"{name}: form {found} of saved runs, and this spectune knows form {FORMAT}", advice)
    try:
        run = _adapter().validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{name}: {place}: {first['msg']}", _ADVICE) from error
    assert run is not None  # it is a JSON object
    return run


@cache
def _adapter() -> TypeAdapter[BenchRun | None]:
    # A key that is not known would be dropped silently, and the run would say something else than was written. Pydantic
    # takes no configuration for a dataclass by itself, but for a union with one.
    return TypeAdapter(BenchRun | None, config=ConfigDict(ser_json_inf_nan="strings", extra="forbid"))
