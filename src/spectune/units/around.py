"""What stands around the engine's arguments: it must be the same before and after a change."""

from __future__ import annotations

from spectune.units.arguments import Found
from spectune.units.execline import split_commands
from spectune.units.service import ServiceUnit
from spectune.units.shell import tokens
from spectune.units.text import Elsewhere, Nested, Text, Word
from spectune.units.unit import Unit

_Span = tuple[int, int]


def around(service: ServiceUnit, found: Found) -> tuple[tuple[str, ...], ...]:
    """Everything in the file of the command line but the engine's arguments: the other assignments, and for each text
    (the ExecStart= line, a script in it) the words that neither are arguments nor hold the text within."""
    assert found.entry is not None
    own = found.entry.assignment
    others = (
        f"[{item.section}] {item.key}={item.value.text}"
        for item in Unit.parse(service.text_of(found.entry.file)).assignments
        if item.line != own.line
    )
    left_out = _arguments(found)
    levels = [(_depth(text), _rest(text, spans, service)) for text, spans in left_out.items()]
    return (tuple(others), *(words for _, words in sorted(levels)))


def _arguments(found: Found) -> dict[Text, set[_Span]]:
    """For each text that can be changed, where arguments or further texts stand in it."""
    left_out: dict[Text, set[_Span]] = {}
    for line, slot in [(found.anchor.line, None), *((arg.line, arg.slot) for arg in found.args)]:
        if isinstance(line.text, Elsewhere):
            continue
        spans = left_out.setdefault(line.text, set())
        if slot is not None:
            spans.add((line.words[slot].start, line.words[slot].end))
        text = line.text
        while isinstance(text, Nested):
            left_out.setdefault(text.outer, set()).add((text.word.start, text.word.end))
            text = text.outer
    return left_out


def _depth(text: Text) -> int:
    return 1 + _depth(text.outer) if isinstance(text, Nested) else 0


def _rest(text: Text, left_out: set[_Span], service: ServiceUnit) -> tuple[str, ...]:
    found: list[Word | str] = []
    if isinstance(text, Nested):
        found += tokens(text.text)
    else:
        for command in split_commands(text, service.all_specifiers()):
            found += [command.prefix, *command.line.words]
    return tuple(
        token if isinstance(token, str) else text.text[token.start : token.end]
        for token in found
        if isinstance(token, str) or (token.start, token.end) not in left_out
    )
