"""Variables of a service's environment, set in the file that holds its command line."""

from __future__ import annotations

import re
from collections.abc import Mapping

from spectune.domain.errors import InputError
from spectune.units.service import Entry, ServiceUnit

_LINE_END = re.compile(r"\r\n|\n")


def with_variables(service: ServiceUnit, entry: Entry, variables: Mapping[str, str]) -> str:
    """The text of the file of an ExecStart= line, with Environment= lines behind it for what is not set so already.

    Raises:
        InputError: something that counts more sets a variable otherwise, or the lines can't stand there.
    """
    has = service.environment().values
    missing = {name: value for name, value in variables.items() if has.get(name) != value}
    text = service.text_of(entry.file)
    if not missing:
        return text
    eol = "\r\n" if "\r\n" in text else "\n"
    end = _LINE_END.search(text, entry.assignment.value.end)
    at = end.end() if end else len(text)
    lines = "".join(f"{line(name, value)}{eol}" for name, value in missing.items())
    written = text[:at] + ("" if end else eol) + lines + text[at:]
    after = service.with_file(entry.file, written)
    if after.environment().values != {**has, **missing} or _starts(after) != _starts(service):
        names = ", ".join(missing)
        raise InputError(
            f"{entry.file}: {names} can't be set there, since an EnvironmentFile= or a later line counts more",
            "Set it where it is set now, and run the campaign again.",
        )
    return written


def line(name: str, value: str) -> str:
    """One Environment= line."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'Environment="{name}={escaped}"'


def _starts(service: ServiceUnit) -> list[str]:
    return [entry.assignment.value.text for entry in service.effective("ExecStart")]
