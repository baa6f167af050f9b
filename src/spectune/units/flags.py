"""Flags in an engine's arguments: which words belong to which flag, and how a change is written."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spectune.domain.errors import InputError
from spectune.domain.knobs import KnobValue

_NUMBER = re.compile(r"-(?:\d|\.\d|inf$)")
_TAKES_POSITIONALS = frozenset({"vllm", "sglang"})


@dataclass(frozen=True, slots=True)
class Spellings:
    """What must be known of an engine's flags; all names without leading dashes.

    Attributes:
        aliases: canonical name -> other spellings of the same flag.
        switches: names that take no value.
        off: canonical name -> the spelling that switches it off ("no-enable-prefix-caching"). A flag that is not among
            them is switched off by leaving it out.
        known: further names that are flags of their own, so that they are no abbreviations of longer ones.
    """

    aliases: Mapping[str, Collection[str]] = field(default_factory=dict)
    switches: Collection[str] = ()
    off: Mapping[str, str] = field(default_factory=dict)
    known: Collection[str] = ()

    def canonical(self, name: str) -> str:
        """The canonical name of a spelling; a spelling that is not known is its own."""
        name = _dashed(name)
        for canonical, others in self.aliases.items():
            if name == _dashed(canonical) or name in {_dashed(other) for other in others}:
                return _dashed(canonical)
        for canonical, off in self.off.items():
            if name == _dashed(off):
                return _dashed(canonical)
        return name

    def is_off(self, name: str) -> bool:
        return _dashed(name) in {_dashed(off) for off in self.off.values()}

    def is_switch(self, name: str) -> bool:
        return self.is_off(name) or self.canonical(name) in {self.canonical(switch) for switch in self.switches}

    def is_known(self, name: str) -> bool:
        aliases = (alias for group in self.aliases.values() for alias in group)
        named = (*self.aliases, *aliases, *self.switches, *self.off, *self.off.values(), *self.known)
        return _dashed(name) in {_dashed(other) for other in named}


@dataclass(frozen=True, slots=True)
class Item:
    """A flag with its values, or a word that belongs to none.

    Attributes:
        name: canonical name; "" for a word that belongs to no flag.
        spelling: as it is written, dashes included and without "=value".
        values: what it is given.
        first, last: indices of its first word and behind its last.
        joined: whether it is written --flag=value.
    """

    name: str
    spelling: str
    values: tuple[str, ...]
    first: int
    last: int
    joined: bool = False


def items(words: Sequence[str], spellings: Spellings) -> tuple[Item, ...]:
    """Splits arguments into flags with their values. All words up to the next flag count as values of the one before,
    unless that is a switch or is written --flag=value."""
    found: list[Item] = []
    at = 0
    while at < len(words):
        word = words[at]
        if not _is_flag(word):
            found.append(Item("", "", (word,), at, at + 1))
            at += 1
            continue
        spelling, joined, value = word.partition("=")
        name = spelling.lstrip("-")
        last = at + 1
        if not joined and not spellings.is_switch(name):
            while last < len(words) and not _is_flag(words[last]):
                last += 1
        values = (value,) if joined else tuple(words[at + 1 : last])
        found.append(Item(spellings.canonical(name), spelling, values, at, last, bool(joined)))
        at = last
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of the arguments.

    Attributes:
        replaced: index -> words in its place; none removes it.
        added: words that come last.
    """

    replaced: Mapping[int, tuple[str, ...]]
    added: tuple[str, ...]

    def result(self, words: Sequence[str]) -> tuple[str, ...]:
        """The arguments as they are to be."""
        kept = (new for index, word in enumerate(words) for new in self.replaced.get(index, (word,)))
        return (*kept, *self.added)


def plan(words: Sequence[str], changes: Mapping[str, KnobValue | None], spellings: Spellings, engine: str = "") -> Plan:
    """Which words must change so that exactly the asked flags have the asked values.

    A flag given several times is left once, in its last place.

    Args:
        changes: name -> value; None removes the flag, True makes it a switch, False switches it off.

    Raises:
        InputError: it can't be told which words belong to a flag, or the same flag is asked for twice.
    """
    asked: dict[str, KnobValue | None] = {}
    for name, value in changes.items():
        canonical = spellings.canonical(name.lstrip("-"))
        if canonical in asked:
            raise InputError(f"--{canonical} is asked for twice, under two spellings")
        asked[canonical] = value
    parts = items(words, spellings)
    _check_spelled_whole(parts, asked, spellings)
    replaced: dict[int, tuple[str, ...]] = {}
    added: list[str] = []
    for name, value in asked.items():
        mine = [part for part in parts if part.name == name]
        for part in mine:
            _check_values(part, parts, value, engine)
        wanted = _spelled(name, value, spellings)
        if not mine:
            added += wanted
            continue
        *others, last = mine
        for part in others if wanted else mine:
            replaced |= dict.fromkeys(range(part.first, part.last), ())
        if wanted:
            replaced |= _in_place(last, wanted, value, spellings)
    return Plan(replaced, tuple(added))


def _check_spelled_whole(parts: Iterable[Item], asked: Collection[str], spellings: Spellings) -> None:
    for part in parts:
        for name in asked:
            if part.name.startswith(name + "."):
                raise InputError(
                    f"{name} is set in parts ({part.spelling}), which spectune does not change",
                    f"write it as one --{name} with a JSON value in the unit first",
                )
            if part.name and part.name != name and len(part.spelling) > 3 and not spellings.is_known(part.name):
                longer = [full for full in _all_spellings(name, spellings) if full.startswith(part.name)]
                if longer:
                    raise InputError(
                        f"{part.spelling} may be an abbreviation of --{longer[0]}",
                        "write the flag out in the unit first",
                    )


def _all_spellings(name: str, spellings: Spellings) -> set[str]:
    return {name, *(_dashed(other) for other in spellings.aliases.get(name, ()))}


def _check_values(part: Item, parts: Sequence[Item], value: KnobValue | None, engine: str) -> None:
    """Raises:
    InputError: a word behind the flag may not be its value.
    """
    if part.joined or not part.values:
        return
    has_model = any(other.name in {"model", "model-path"} or (not other.name and other.first == 0) for other in parts)
    takes_value = value is not None and not isinstance(value, bool)
    if engine in _TAKES_POSITIONALS and not has_model and not (takes_value and len(part.values) == 1):
        raise InputError(
            f"it can't be told whether {part.values[-1]!r} belongs to {part.spelling} or is the model",
            "write the model first or as a flag (--model) in the unit",
        )
    if len(part.values) > 1 and takes_value:
        raise InputError(
            f"{part.spelling} has {len(part.values)} values ({' '.join(part.values)}), and only one can be set",
            "change this flag by hand in the unit",
        )


def _spelled(name: str, value: KnobValue | None, spellings: Spellings) -> tuple[str, ...]:
    """Words of a flag as it is written where it is new; none where it is to be absent."""
    if value is None:
        return ()
    if value is False:
        off = {_dashed(canonical): other for canonical, other in spellings.off.items()}.get(name)
        return (_with_dashes(_dashed(off)),) if off else ()
    return (_with_dashes(name),) if value is True else (_with_dashes(name), str(value))


def _in_place(
    part: Item, wanted: tuple[str, ...], value: KnobValue | None, spellings: Spellings
) -> dict[int, tuple[str, ...]]:
    """The words of a flag that stays where it is, in its own spelling where that means the same."""
    turned = spellings.is_off(part.spelling.lstrip("-")) != (value is False)
    spelling = wanted[0] if turned else part.spelling
    if len(wanted) == 1:
        first = {} if spelling == part.spelling and not part.joined else {part.first: (spelling,)}
        return {**first, **dict.fromkeys(range(part.first + 1, part.last), ())}
    if len(part.values) == 1 and not turned and same_value(part.values[0], value):
        return {}
    if part.joined:
        return {part.first: (f"{spelling}={wanted[1]}",)}
    if not part.values:
        return {part.first: (spelling, wanted[1])}
    name = {part.first: (spelling,)} if turned else {}
    return {**name, part.first + 1: (wanted[1],)}


def same_value(written: str, value: KnobValue | None) -> bool:
    """Whether a written value means the asked one ("0.90" is 0.9)."""
    if value is None or isinstance(value, bool):
        return False
    if written == str(value):
        return True
    try:
        return isinstance(value, (int, float)) and float(written) == value
    except ValueError:
        return False


def _with_dashes(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name}"


def _is_flag(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not _NUMBER.match(word)


def _dashed(name: str) -> str:
    return name.lstrip("-").replace("_", "-")
