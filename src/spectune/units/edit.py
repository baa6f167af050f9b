"""Changes flags of a service's engine, in the file itself or by a drop-in, and proves that nothing else changes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from spectune.domain.errors import InputError
from spectune.domain.knobs import KnobValue
from spectune.domain.redaction import HIDDEN, redact, redact_text
from spectune.units.arguments import Arg, Found
from spectune.units.around import around
from spectune.units.find import BY_HAND, find
from spectune.units.flags import Plan, Spellings, items, plan, same_value
from spectune.units.service import Entry, ServiceUnit
from spectune.units.settings import with_variables
from spectune.units.text import Splice, apply

DROP_IN = "50-spectune.conf"

Changes = Mapping[str, KnobValue | None]
"""Flag name without dashes -> value; None removes it, True makes it a switch, False switches it off."""


@dataclass(frozen=True, slots=True)
class Edited:
    """A changed service.

    Attributes:
        file: the file to write: the unit's name, or the file name of a drop-in.
        text: its whole new text.
        old: its text so far; "" where it is new.
        before, after: the engine's command line, secrets and all.
    """

    file: str
    text: str
    old: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def diff(self) -> str:
        """The change of the file for people, as a unified diff with secrets hidden; "" where nothing changes."""
        lines = difflib.unified_diff(
            self._shown(self.old).splitlines(keepends=True),
            self._shown(self.text).splitlines(keepends=True),
            f"{self.file} (now)" if self.old else "/dev/null",
            f"{self.file} (spectune)",
        )
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    def _shown(self, text: str) -> str:
        for argv in (self.before, self.after):
            for argument, shown in zip(argv, redact(argv, {})[0], strict=True):
                # A secret may stand on another line than its flag, where its text alone does not tell.
                secret = argument if shown == HIDDEN else argument.partition("=")[2] if shown != argument else ""
                text = text.replace(secret, HIDDEN) if secret else text
        return redact_text(text)


def edit(
    service: ServiceUnit,
    changes: Changes,
    spellings: Spellings | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Edited:
    """The unit file, or the drop-in that sets ExecStart=, with the asked flags changed and every other byte as it was.

    Args:
        variables: of the environment, set behind the command line where they are not set so already.

    Raises:
        InputError: the engine's command line can't be found or changed with certainty, or spectune's own drop-in is in
            the way.
    """
    if DROP_IN in service.drop_ins:
        raise InputError(
            f"{service.name} has a drop-in {DROP_IN} of spectune, which would override a change of the unit file",
            "undo it first: spectune rollback",
        )
    flags = _edited(service, changes, spellings or Spellings())
    changed = service.with_file(flags.file, flags.text)
    entry = find(changed).entry
    assert entry is not None
    return replace(flags, text=with_variables(changed, entry, variables))


def drop_in(service: ServiceUnit, changes: Changes, spellings: Spellings | None = None, name: str = DROP_IN) -> Edited:
    """A drop-in that gives the service the changed command line.

    Changes count from the service without a drop-in of that name, so the same call gives the same text again.

    Raises:
        InputError: the command line can't be found or changed with certainty, or a later drop-in sets it again.
    """
    base = service.without(name)
    inside = _edited(base, changes, spellings or Spellings())
    changed = base.with_file(inside.file, inside.text)
    lines = [_exec_start(changed, entry) for entry in changed.effective("ExecStart")]
    names = ", ".join(changes) or "none"
    manager = "systemctl --user" if service.user else "systemctl"
    written = (
        f"# Written by spectune: the start of {service.name} with these flags changed: {names}.\n"
        f"# To undo: delete this file, then run: {manager} daemon-reload && {manager} restart {service.name}\n"
        "[Service]\nExecStart=\n" + "".join(lines)
    )
    now = base.with_file(name, written)
    for entry in now.effective("ExecStart"):
        if entry.file != name:
            raise InputError(
                f"the drop-in {entry.file} comes after {name} and sets ExecStart= again",
                f"rename {entry.file} to a name that sorts before {name}",
            )
    if _exec_starts(now) != _exec_starts(changed) or find(now).argv != inside.after:
        raise InputError(f"the ExecStart= lines of {service.name} can't be repeated in a drop-in", BY_HAND)
    return Edited(name, written, service.drop_ins.get(name, ""), inside.before, inside.after)


def _exec_starts(service: ServiceUnit) -> list[str]:
    return [entry.assignment.value.text for entry in service.effective("ExecStart")]


def _exec_start(service: ServiceUnit, entry: Entry) -> str:
    """An ExecStart= line as it is spelled in its file."""
    value = entry.assignment.value
    spelled = service.text_of(entry.file)[value.at : value.end].replace("\r\n", "\n")
    return f"ExecStart={spelled}\n"


def _edited(service: ServiceUnit, changes: Changes, spellings: Spellings) -> Edited:
    """The changed file, proven to differ in the asked flags alone.

    Raises:
        InputError: as edit.
    """
    found = find(service)
    assert found.entry is not None
    todo = plan([arg.text for arg in found.args], changes, spellings, found.engine)
    file = found.entry.file
    old = service.text_of(file)
    text = apply(old, _splices(found, todo))
    changed = service.with_file(file, text)
    again = find(changed)
    same_program = (again.engine, again.program, again.path) == (found.engine, found.program, found.path)
    asked = {spellings.canonical(name): value for name, value in changes.items()}
    if not same_program or not _flags_as_asked(found, again, asked, spellings):
        raise InputError(f"the flags of {service.name} can't be changed without changing something else", BY_HAND)
    if around(service, found) != around(changed, again):
        raise InputError(f"{file} can't be changed without changing more than the flags", BY_HAND)
    return Edited(file, text, old, found.argv, again.argv)


def _splices(found: Found, todo: Plan) -> list[Splice]:
    splices: list[Splice] = []
    done: set[int] = set()
    for index in todo.replaced:
        if index in done:
            continue
        arg = found.args[index]
        together = [i for i, other in enumerate(found.args) if other.line is arg.line and other.slot == arg.slot]
        done |= set(together)
        if arg.shared:
            _check_no_secret([found.args[i] for i in together])
        new = [word for i in together for word in todo.replaced.get(i, (found.args[i].text,))]
        splices += arg.line.replace(arg.slot, new) if new else arg.line.remove(arg.slot)
    if todo.added:
        splices += found.anchor.line.insert(found.anchor.slot, todo.added)
    return splices


def _check_no_secret(args: Sequence[Arg]) -> None:
    """Raises:
    InputError: a variable that must be written out holds a secret.
    """
    texts = tuple(arg.text for arg in args)
    if redact(texts, {})[0] != texts:
        variable = args[0].line.words[args[0].slot].text
        raise InputError(
            f"the flag to change is one of several in {variable}, and so is a secret, which must not stand in a unit",
            f"move the flag from {variable} into ExecStart= by hand, or the secret into a variable of its own",
        )


def _flags_as_asked(found: Found, again: Found, asked: Changes, spellings: Spellings) -> bool:
    old = items([arg.text for arg in found.args], spellings)
    new = items([arg.text for arg in again.args], spellings)
    untouched = [[(i.spelling, i.values, i.joined) for i in part if i.name not in asked] for part in (old, new)]
    if untouched[0] != untouched[1]:
        return False
    for name, value in asked.items():
        mine = [item for item in new if item.name == name]
        if value is None or (value is False and name not in {spellings.canonical(off) for off in spellings.off}):
            fits = not mine
        elif isinstance(value, bool):
            fits = len(mine) == 1 and not mine[0].values and spellings.is_off(mine[0].spelling) != value
        else:
            fits = len(mine) == 1 and len(mine[0].values) == 1 and same_value(mine[0].values[0], value)
        if not fits:
            return False
    return True
