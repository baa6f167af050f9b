"""A unit's texts as they are on its host, and the drop-ins that change its engine's flags."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spectune.domain.deployment import Launch
from spectune.domain.errors import InputError
from spectune.domain.knobs import KnobValue
from spectune.engines.llamacpp import flags as llamacpp_flags
from spectune.engines.sglang import flags as sglang_flags
from spectune.systemd.unit import ManagedUnit
from spectune.units import programs
from spectune.units.edit import Edited, drop_in, edit
from spectune.units.find import find
from spectune.units.flags import Item, Spellings, items, same_value
from spectune.units.service import ServiceUnit
from spectune.units.settings import line

_ASK_S = 30.0
_SCRIPT_BYTES = 1 << 16
# Scripts among the words of a command line: small files that begin with "#!".
_SCRIPTS = (
    'for path; do [ -f "$path" ] && [ "$(stat -c %s -- "$path")" -le LIMIT ] && [ "$(head -c 2 -- "$path")" = "#!" ]'
    ' && printf "%s\\0" "$path"; done; true'
).replace("LIMIT", str(_SCRIPT_BYTES))


def read_service(unit: ManagedUnit) -> ServiceUnit:
    """The unit file with its drop-ins, environment files and scripts.

    Raises:
        InputError: there is no such unit, or it can't be worked on.
        HostError: a file can't be read.
    """
    state = unit.found()

    def text(path: str) -> str:
        return (unit.host.get(path, sudo=unit.sudo) or b"").decode(errors="surrogateescape")

    manager = unit.host.run([*unit.systemctl, "show-environment"], timeout_s=_ASK_S, sudo=unit.sudo).text
    service = ServiceUnit(
        name=unit.name,
        text=text(state.fragment),
        drop_ins={path.rpartition("/")[2]: text(path) for path in state.drop_ins},
        manager=dict(line.partition("=")[::2] for line in manager.splitlines() if "=" in line and "$'" not in line),
        user=unit.user,
    )
    wanted = [entry.assignment.value.text.removeprefix("-") for entry in service.effective("EnvironmentFile")]
    words = {word for command in state.exec_start for word in _words(command) if word.startswith("/")}
    if words:
        listed = unit.host.run(["/bin/sh", "-c", _SCRIPTS, "sh", *sorted(words)], timeout_s=_ASK_S, sudo=unit.sudo)
        wanted += [path for path in listed.text.split("\0") if path]
    files = {path: unit.host.get(path, sudo=unit.sudo) for path in wanted}
    found = {path: data.decode(errors="surrogateescape") for path, data in files.items() if data is not None}
    return ServiceUnit(
        service.name, service.text, service.drop_ins, found, service.specifiers, service.manager, service.user
    )


def spellings(engine: str) -> Spellings:
    """How an engine's flags may be written."""
    if engine == "sglang":
        return _of_sglang()
    if engine == "llama.cpp":
        flags = [flag for flag in llamacpp_flags.load() if not flag.removed]
        return Spellings(
            aliases={flag.name: [name.lstrip("-") for name in flag.on[1:]] for flag in flags if len(flag.on) > 1},
            switches=[flag.name for flag in flags if not flag.takes],
            off={flag.name: flag.off[0].lstrip("-") for flag in flags if flag.off},
            known=[flag.name for flag in flags],
        )
    return Spellings()


def changes(old: Sequence[str], new: Sequence[str], spelled: Spellings) -> dict[str, KnobValue | None]:
    """Flags by which two lists of arguments differ: name -> the new value, None where it is absent.

    Raises:
        InputError: a flag differs that has several values, or the two name different models.
    """
    before, after = _by_name(old, spelled), _by_name(new, spelled)
    positional = [item.values[0] for item in items(old, spelled) if not item.name]
    found: dict[str, KnobValue | None] = {}
    for name, item in after.items():
        if name in {"model", "model-path"} and name not in before and positional:
            if item.values != (positional[0],):
                raise InputError(f"the unit serves {positional[0]}, the campaign {' '.join(item.values)}")
        elif name not in before or not _same(before[name], item, spelled):
            found[name] = _value(item, spelled)
    return found | {name: None for name in before if name not in after}


def flags_of(argv: Sequence[str]) -> tuple[str, ...]:
    """The arguments of an engine's command line."""
    known = programs.engine_of(argv)
    first = known[1] if known else next((at for at, word in enumerate(argv) if word.startswith("-")), len(argv))
    return tuple(argv[first:])


def read_items(words: Sequence[str], spelled: Spellings) -> list[Item]:
    """Flags with their values, abbreviations that engines understand written out; words that belong to no flag are
    left out."""
    found = []
    for item in items(words, spelled):
        if item.name and not spelled.is_known(item.name):
            longer = {spelled.canonical(name) for name in _all_names(spelled) if name.startswith(item.name)}
            if len(longer) == 1:
                item = replace(item, name=min(longer))
        if item.name:
            found.append(item)
    return found


@dataclass(frozen=True, slots=True)
class DropIns:
    """Writes drop-ins for one service.

    Attributes:
        service: its texts; an earlier drop-in of spectune's does not count.
    """

    service: ServiceUnit
    spelled: Spellings

    def __call__(self, launch: Launch, variables: Mapping[str, str]) -> str:
        """See systemd.deployer.Editor: the unit's own command line, with the flags changed by which the launch differs
        from it."""
        base = self.service.without("50-spectune.conf")
        own = [arg.text for arg in find(base).args]
        edited = drop_in(self.service, changes(own, flags_of(launch.argv), self.spelled), self.spelled)
        has = base.environment().values
        more = {name: value for name, value in launch.env.items() if has.get(name) != value}
        return _with_variables(edited.text, {**more, **variables})

    def between(self, baseline: Launch, winner: Launch, edit_unit: bool = False) -> Edited:
        """What makes the step from one launch to another in the unit, and nothing else.

        Args:
            edit_unit: change the file that holds the command line; else write a drop-in.

        Raises:
            InputError: it can't be made with certainty.
        """
        asked = changes(flags_of(baseline.argv), flags_of(winner.argv), self.spelled)
        more = {name: value for name, value in winner.env.items() if baseline.env.get(name) != value}
        if edit_unit:
            return edit(self.service, asked, self.spelled, more)
        edited = drop_in(self.service, asked, self.spelled)
        text = _with_variables(edited.text, more)
        return Edited(edited.file, text, edited.old, edited.before, edited.after)


def _with_variables(text: str, variables: Mapping[str, str]) -> str:
    return text + "".join(f"{line(name, value)}\n" for name, value in variables.items())


def _of_sglang() -> Spellings:
    aliases: dict[str, list[str]] = {}
    switches: set[str] = set()
    off: dict[str, str] = {}
    known: set[str] = set()
    for version in sglang_flags.RECORDED:
        for flag in sglang_flags.load(version):
            known.add(flag.name)
            name = flag.becomes or flag.name
            mine = aliases.setdefault(name, [])
            mine += [other for other in (flag.name, *flag.aliases) if other != name and other not in mine]
            if flag.kind == "switch":
                switches.add(name)
            if flag.negation:
                off[name] = f"no-{flag.name}"
    return Spellings({name: others for name, others in aliases.items() if others}, switches, off, known)


def _by_name(words: Sequence[str], spelled: Spellings) -> dict[str, Item]:
    """Flag -> its last occurrence, which is the one that counts."""
    return {item.name: item for item in read_items(words, spelled)}


def _all_names(spelled: Spellings) -> set[str]:
    return {*spelled.known, *spelled.aliases, *(name for group in spelled.aliases.values() for name in group)}


def _same(old: Item, new: Item, spelled: Spellings) -> bool:
    off = spelled.is_off(old.spelling.lstrip("-")), spelled.is_off(new.spelling.lstrip("-"))
    if off[0] != off[1] or len(old.values) != len(new.values):
        return False
    return all(a == b or same_value(a, _number(b)) or _json(a, b) for a, b in zip(old.values, new.values, strict=True))


def _value(item: Item, spelled: Spellings) -> KnobValue:
    if spelled.is_off(item.spelling.lstrip("-")):
        return False
    if not item.values:
        return True
    if len(item.values) > 1:
        raise InputError(
            f"{item.spelling} has several values, and spectune can't change such a flag in a unit",
            "Give it the unit's own values in service.args.",
        )
    return item.values[0]


def _number(text: str) -> KnobValue:
    try:
        return float(text)
    except ValueError:
        return text


def _json(old: str, new: str) -> bool:
    if not (old.startswith(("{", "[")) and new.startswith(("{", "["))):
        return False
    try:
        return bool(json.loads(old) == json.loads(new))
    except ValueError:
        return False


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()
