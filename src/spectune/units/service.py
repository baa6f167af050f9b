"""A service as systemd puts it together: the unit file, its drop-ins, and the environment they set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from spectune.domain.errors import InputError
from spectune.units.environment import (
    OF_SYSTEMD,
    Environment,
    parse_environment,
    parse_environment_file,
    split_list,
)
from spectune.units.execline import specify
from spectune.units.unit import Assignment, Unit

_BYTE = re.compile(r"\\x([0-9a-fA-F]{2})")


@dataclass(frozen=True, slots=True)
class Entry:
    """An assignment and the file it stands in: the unit's name, or the file name of a drop-in."""

    file: str
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class ServiceUnit:
    """The texts that make up one service.

    Attributes:
        name: as systemctl knows it ("vllm.service", "sglang@0.service").
        text: the unit file; for an instance, the template's.
        drop_ins: file name -> text. systemd applies them in the order of their names.
        files: absolute path -> text, of environment files and of scripts that the unit runs. A missing file whose name
            has a "-" before it in EnvironmentFile= counts as absent.
        specifiers: letter -> value for what only the host knows ("h": "/home/ml").
        manager: variables of the service manager, which all its services inherit (systemctl show-environment).
        user: whether it belongs to a user's own service manager.
    """

    name: str
    text: str
    drop_ins: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    specifiers: Mapping[str, str] = field(default_factory=dict)
    manager: Mapping[str, str] = field(default_factory=dict)
    user: bool = False

    def with_file(self, file: str, text: str) -> ServiceUnit:
        """The service once a file (the unit or a drop-in) has another text."""
        if file == self.name:
            return replace(self, text=text)
        return replace(self, drop_ins={**self.drop_ins, file: text})

    def without(self, drop_in: str) -> ServiceUnit:
        """The service without one drop-in."""
        return replace(self, drop_ins={name: text for name, text in self.drop_ins.items() if name != drop_in})

    def text_of(self, file: str) -> str:
        return self.text if file == self.name else self.drop_ins[file]

    def units(self) -> tuple[tuple[str, Unit], ...]:
        """File name and content of the unit and its drop-ins, in the order in which they count."""
        rest = sorted(self.drop_ins.items())
        return ((self.name, Unit.parse(self.text)), *((name, Unit.parse(text)) for name, text in rest))

    def effective(self, key: str) -> tuple[Entry, ...]:
        """Assignments of a list in [Service] that count: an empty one drops those before it."""
        found: list[Entry] = []
        for file, unit in self.units():
            for item in unit.values("Service", key):
                if item.value.text:
                    found.append(Entry(file, item))
                else:
                    found.clear()
        return tuple(found)

    def all_specifiers(self) -> dict[str, str]:
        """Specifiers with their values: those of the name, and those given."""
        stem = self.name.rpartition(".")[0]
        prefix, at, instance = stem.partition("@")
        found = {"n": self.name, "N": stem, "p": prefix, "P": _unescape(prefix)}
        found["j"] = prefix.rpartition("-")[2]
        found["J"] = _unescape(found["j"])
        if instance or not at:
            found |= {"i": instance, "I": _unescape(instance)}
        return {**found, **self.specifiers}

    def environment(self) -> Environment:
        """What Environment=, EnvironmentFile=, PassEnvironment= and UnsetEnvironment= make of the environment.

        Raises:
            InputError: a quote is not closed in one of them.
        """
        specifiers = self.all_specifiers()
        values = dict(self.manager)
        for entry in self.effective("Environment"):
            values |= parse_environment(entry.assignment.value.text, specifiers)
        missing: list[str] = []
        for entry in self.effective("EnvironmentFile"):
            path = specify(entry.assignment.value.text, specifiers)
            text = self.files.get(path.removeprefix("-"))
            if text is not None:
                values |= parse_environment_file(text)
            elif not path.startswith("-"):
                missing.append(path)
        passed = {
            name for entry in self.effective("PassEnvironment") for name in split_list(entry.assignment.value.text)
        }
        for entry in self.effective("UnsetEnvironment"):
            for item in split_list(entry.assignment.value.text):
                name, equals, value = item.partition("=")
                if not equals or values.get(name) == value:
                    values.pop(name, None)
        return Environment(values, OF_SYSTEMD | passed, tuple(missing))


def _unescape(text: str) -> str:
    """A name as systemd-escape --unescape gives it: "-" is "/", \\xHH a byte."""
    out = bytearray()
    at = 0
    while at < len(text):
        escaped = _BYTE.match(text, at)
        if escaped:
            out.append(int(escaped[1], 16))
            at += 4
            continue
        out += b"/" if text[at] == "-" else text[at].encode()
        at += 1
    try:
        return out.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"the name {text} of the unit is not valid text") from error
