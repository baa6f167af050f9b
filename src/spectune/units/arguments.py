"""Arguments with the place where each is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spectune.domain.errors import InputError
from spectune.units import environment, variables
from spectune.units.environment import Environment
from spectune.units.execline import Command
from spectune.units.service import Entry
from spectune.units.text import Line, Piece, Word

_CHANGED = 'the script changes "$@" before it starts the engine'


class NoEngine(InputError):
    """A command certainly starts no engine that is known here. Other errors say that nobody can tell."""


@dataclass(frozen=True, slots=True)
class Arg:
    """One argument of a command.

    Attributes:
        text: what the program is given.
        line, slot: the word that spells it.
        word: the same word with variables replaced; its pieces say where each character is spelled.
        shared: whether the word spells other arguments too, because it is a variable of several words.
        doubt: why the text is not certain; "" where it is.
    """

    text: str
    line: Line
    slot: int
    word: Word
    shared: bool = False
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The word behind which further arguments can be written."""

    line: Line
    slot: int


@dataclass(frozen=True, slots=True)
class Found:
    """The engine's command line in a service.

    Attributes:
        engine: name of the engine adapter ("sglang", "vllm", "llama.cpp").
        program: the words before its flags ("/opt/venv/bin/python", "-m", "sglang.launch_server"); empty where a
            container image starts the engine by itself.
        args: its arguments.
        anchor: where a new argument goes.
        path: the programs around it, outermost first ("taskset", "sh -c", "docker run vllm/vllm-openai:v0.11").
        entry: the ExecStart= assignment and its file.
    """

    engine: str
    program: tuple[str, ...]
    args: tuple[Arg, ...]
    anchor: Anchor
    path: tuple[str, ...]
    entry: Entry | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        """The engine's whole command line."""
        return (*self.program, *(arg.text for arg in self.args))

    @property
    def where(self) -> str:
        """For people: "vllm.service:7, through taskset, sh -c"."""
        place = f"{self.entry.file}:{self.entry.assignment.line}" if self.entry else "the command"
        return f"{place}, through {', '.join(self.path)}" if self.path else place


def systemd_args(command: Command, values: Environment) -> list[Arg]:
    """The arguments of a command of ExecStart=, variables replaced; the program comes first."""
    line = command.line
    args = [Arg(line.words[0].text, line, 0, line.words[0])]
    for slot, word in enumerate(line.words[1:], 1):
        if slot == 1 and command.named:
            continue
        if not command.expands:
            args.append(Arg(word.text, line, slot, word))
            continue
        try:
            expanded = environment.expand(word, values)
        except InputError as error:
            args.append(Arg(word.text, line, slot, word, doubt=error.message))
            continue
        args += [Arg(item.text, line, slot, item, shared=len(expanded) > 1) for item in expanded]
    return args


def shell_args(line: Line, known: variables.Variables, positional: Sequence[Arg] | None) -> list[Arg]:
    """The arguments of a command in a shell script.

    Args:
        positional: what "$@" stands for; None where the script has changed it.
    """
    args: list[Arg] = []
    for slot, word in enumerate(line.words):
        if is_all_arguments(word):
            if positional is None:
                args.append(Arg(word.text, line, slot, word, doubt=_CHANGED))
            else:
                args += positional
            continue
        try:
            texts = variables.expand(word, known)
        except InputError as error:
            args.append(Arg(word.text, line, slot, word, doubt=error.message))
            continue
        plain = not any(piece.variable or piece.substituted for piece in word.pieces)
        args += [Arg(text, line, slot, word if plain else _whole(word, text), shared=len(texts) > 1) for text in texts]
    return args


def is_all_arguments(word: Word) -> bool:
    """Whether the word is "$@"."""
    return len(word.pieces) == 1 and word.pieces[0].variable == "@" and bool(word.pieces[0].quote)


def _whole(word: Word, text: str) -> Word:
    return Word((Piece(text, word.start, word.end),), word.start, word.end, word.before)
