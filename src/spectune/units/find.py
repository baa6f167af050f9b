"""Finds the command line of the engine in a service, however many programs stand around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from spectune.domain.errors import InputError
from spectune.units import shell
from spectune.units.arguments import Anchor, Arg, Found, NoEngine, is_all_arguments, shell_args, systemd_args
from spectune.units.containers import container_command
from spectune.units.environment import Environment
from spectune.units.execline import Command, split_commands
from spectune.units.options import FRESH, RUNNERS, SHELLS, WRAPPERS, shell_options
from spectune.units.programs import base, engine_of, module_command
from spectune.units.service import Entry, ServiceUnit
from spectune.units.text import Elsewhere, Line, Nested, Text
from spectune.units.variables import Variables, assign

BY_HAND = (
    "write the engine's command line by hand: its flags under service.args in the campaign file, and the service's"
    " start as a drop-in of your own (systemctl edit) whose ExecStart= starts the engine directly"
)
_MOST_NESTED = 8
_HARMLESS = frozenset(
    {"set", "shift", "cd", "ulimit", "trap", "umask", "wait", "sleep", "echo", "[", "[[", "test", ":"}
)


def find(service: ServiceUnit) -> Found:
    """The one engine that a service starts.

    Raises:
        InputError: there is none, more than one, or its command line can't be told from the texts; with what to write
            instead.
    """
    entries = service.effective("ExecStart")
    if not entries:
        raise InputError(f"{service.name} has no ExecStart= line in [Service]", BY_HAND)
    values = service.environment()
    found: list[Found] = []
    misses: list[InputError] = []
    for entry in entries:
        try:
            for command in split_commands(entry.assignment.value, service.all_specifiers()):
                try:
                    found.append(_of_command(command, entry, values, service))
                except NoEngine as error:
                    misses.append(_placed(error, entry))
        except InputError as error:
            raise _placed(error, entry) from error
    if len(found) > 1:
        names = " and ".join(item.where for item in found)
        raise InputError(f"{service.name} starts more than one engine: {names}", BY_HAND)
    if not found:
        raise misses[-1] if misses else InputError(f"{service.name} starts no program", BY_HAND)
    return found[0]


def _placed(error: InputError, entry: Entry) -> InputError:
    where = f"{entry.file}:{entry.assignment.line}"
    return InputError(f"{where}: {error.message}", error.advice or BY_HAND)


def _of_command(command: Command, entry: Entry, values: Environment, service: ServiceUnit) -> Found:
    args = systemd_args(command, values)
    anchor = Anchor(command.line, len(command.line.words) - 1)
    return _checked(replace(_Search(service, values).resolve(args, anchor), entry=entry), args)


def _checked(found: Found, args: Sequence[Arg]) -> Found:
    """Raises:
    InputError: a word of the command is not certain.
    """
    for arg in (*args, *found.args):
        if arg.doubt:
            raise InputError(arg.doubt)
    return found


@dataclass(frozen=True, slots=True)
class _Search:
    """Steps from program to program.

    Attributes:
        variables: further variables that programs on the way have set.
        path: the programs passed so far, for people.
    """

    service: ServiceUnit
    values: Environment
    variables: dict[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()

    def resolve(self, args: Sequence[Arg], anchor: Anchor) -> Found:
        """The engine that a command line starts.

        Raises:
            InputError: it starts none, or nobody can tell.
        """
        if not args or len(self.path) > _MOST_NESTED:
            raise NoEngine("there is no command behind " + " -> ".join(self.path))
        words = [arg.text for arg in args]
        engine = engine_of(words)
        if engine:
            name, first = engine
            return Found(name, tuple(words[:first]), tuple(args[first:]), anchor, self.path)
        name = base(words[0])
        if name in WRAPPERS:
            at = WRAPPERS[name].skip(words)
            within = self._within(name)
            if FRESH.get(name, frozenset()) & {"*", *words[1:at]}:
                within = within.unknowing(name)
            elif name == "env":
                set_here = dict(word.split("=", 1) for word in words[1:at] if "=" in word[1:] and word[0] != "-")
                within = replace(within, variables={**self.variables, **set_here})
            return within.resolve(args[at:], anchor)
        if name in RUNNERS or name == "uvx":
            return self._runner(name, args, words, anchor)
        if name in SHELLS:
            return self._shell(name, args, words, anchor)
        if name in {"docker", "podman"}:
            command = container_command(args)
            inside = self._within(f"{name} run {command.image}")
            if command.engine:
                first = len(args) - len(command.args)
                program = tuple(words[first:][: command.skipped])
                return Found(command.engine, program, tuple(command.args[command.skipped :]), anchor, inside.path)
            return inside.unknowing("the container").resolve(command.args, anchor)
        script = self.service.files.get(words[0])
        if script is not None:
            return self._within(words[0])._script(Elsewhere(script, words[0]), args[1:], anchor, login=False)
        raise NoEngine(
            f"{words[0]} is no engine and no program known to start one",
            f'if it is a script that ends in the engine\'s command line with "$@", let spectune read it; or {BY_HAND}',
        )

    def _within(self, program: str) -> _Search:
        return replace(self, path=(*self.path, program))

    def unknowing(self, place: str) -> _Search:
        """The search where variables may have any value."""
        return replace(self, variables={}, values=Environment({}, missing=(place,)))

    def _runner(self, name: str, args: Sequence[Arg], words: Sequence[str], anchor: Anchor) -> Found:
        """uv run, conda run and the like."""
        known = RUNNERS["uv" if name == "uvx" else name]
        at = 0
        if name != "uvx":
            at = known.skip(words)
            if words[at : at + 2] == ["tool", "run"]:
                at += 1
            if words[at : at + 1] != ["run"]:
                raise NoEngine(f"{name} {' '.join(words[at : at + 1])} starts no program")
        within = self._within(f"{name} run" if name != "uvx" else name)
        for index in range(at + 1, len(words) - 1):
            if words[index] in {"-m", "--module"} and name == "uv":
                if known.skip(words[:index], at + 1) < index:
                    break
                module = module_command(words[index + 1], words[index + 2 :])
                if module is None:
                    raise NoEngine(f"the Python module {words[index + 1]} is no engine known here")
                first = index + 1 + module[1]
                return Found(module[0], tuple(words[index:first]), tuple(args[first:]), anchor, within.path)
        return within.resolve(args[known.skip(words, at + 1) :], anchor)

    def _shell(self, name: str, args: Sequence[Arg], words: Sequence[str], anchor: Anchor) -> Found:
        at, command, login = shell_options(words)
        if at >= len(args):
            raise NoEngine(f"{name} is started without a script")
        within = self._within(f"{name} -c" if command else f"{name} {words[at]}")
        if command:
            script = args[at]
            if script.doubt:
                raise InputError(script.doubt)
            text: Text = Nested(script.line.text, script.word, script.line.escape)
            return within._script(text, args[at + 2 :], anchor, login)
        if words[at] not in self.service.files:
            raise NoEngine(f"{words[at]} is a script that spectune has not read")
        return within._script(Elsewhere(self.service.files[words[at]], words[at]), args[at + 1 :], anchor, login)

    def _script(self, text: Text, positional: Sequence[Arg], anchor: Anchor, login: bool) -> Found:
        """The engine that a shell script starts; positional are its "$@"."""
        known = Variables(
            {**self.values.values, **self.variables} if not self.values.missing else dict(self.variables),
            self.values.unknown,
            not login and not self.values.missing,
        )
        branches = shell.branches(text.text)
        given: Sequence[Arg] | None = positional
        inner = self.unknowing("the script around it")
        found: list[Found] = []
        misses: list[NoEngine] = []
        for simple in shell.simple_commands(text.text):
            if _changes_arguments(simple):
                given = None
            if _is_setup(simple, known):
                if branches:
                    # What is set in one branch need not be set at all.
                    _forget(known)
                continue
            line = Line(text, simple.words, shell.quote_word, shell.escape)
            passes = any(is_all_arguments(word) for word in simple.words)
            args = shell_args(line, known, given)
            try:
                at = anchor if passes else Anchor(line, len(simple.words) - 1)
                found.append(_checked(inner.resolve(args, at), args))
            except NoEngine as error:
                misses.append(error)
        if len(found) > 1:
            raise InputError("the shell script starts an engine in more than one place")
        if not found:
            raise misses[-1] if misses else NoEngine("the shell script starts no program")
        return found[0]


def _changes_arguments(simple: shell.Simple) -> bool:
    """Whether a command of a script changes "$@"."""
    words = [word.text for word in simple.words]
    match words[:1]:
        case ["shift"]:
            return True
        case ["set"]:
            return "--" in words or any(word[:1] not in "-+" and word != "pipefail" for word in words[1:])
    return False


def _is_setup(simple: shell.Simple, known: Variables) -> bool:
    """Whether a command only sets variables or options of the shell; known then says what it has set."""
    words = [word.text for word in simple.words]
    match words[:1]:
        case []:
            assign(simple.assignments, known)
        case ["export" | "readonly" | "local" | "declare" | "typeset"]:
            assign(simple.words[1:], known)
        case ["source" | "."]:
            if base(words[-1]) not in {"activate", "conda.sh"}:
                _forget(known)
        case ["eval" | "read" | "unset" | "mapfile" | "for" | "select" | "case"]:
            _forget(known)
        case [name] if name in _HARMLESS:
            pass
        case _:
            return False
    return True


def _forget(known: Variables) -> None:
    known.values.clear()
    known.complete = False
