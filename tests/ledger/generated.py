"""Strategies for events with everything in them that their types allow, made from the types themselves."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt, MinLen
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from spectune.domain.events import CampaignOpened, Event
from spectune.domain.measurement import RequestRecord
from spectune.domain.spec import LevelKey

_PLAIN: dict[type, st.SearchStrategy[Any]] = {
    str: st.text(max_size=8),
    bool: st.booleans(),
    int: st.integers() | st.integers(-(1 << 80), 1 << 80),
    float: st.floats(),
    types.NoneType: st.none(),
}
_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@cache
def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type of the domain, the bounds in its annotations kept."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == LevelKey:
        return st.integers(1, 512) | st.sampled_from(("1-4", "2.5/s", "1-4/s", "2x"))
    arguments = get_args(kind)
    origin = get_origin(kind)
    if origin is Annotated:
        return _bounded(arguments[0], _bounds(arguments[1:]))
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in {Union, types.UnionType}:
        return st.one_of(*(values_of(argument) for argument in arguments))
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*(values_of(argument) for argument in arguments))
    if origin is Mapping:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=2)
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    assert isinstance(kind, type)
    assert is_dataclass(kind)
    hints = get_type_hints(kind, include_extras=True)
    return st.builds(kind, **{field.name: _field(kind, field.name, hints[field.name]) for field in fields(kind)})


def _field(owner: type, name: str, hint: Any) -> st.SearchStrategy[Any]:
    if owner is RequestRecord:  # records go into columns of 64 bits, and a column holds no NaN
        if hint in {int, int | None}:
            return _INT64 if hint is int else st.none() | _INT64
        if name == "output_compression":
            return st.none() | st.floats(allow_nan=False)
    return values_of(hint)


def _bounds(metadata: tuple[Any, ...]) -> dict[type, Any]:
    found = []
    for item in metadata:
        found += item.metadata if isinstance(item, FieldInfo) else [item]
    return {type(item): item for item in found}


def _bounded(kind: Any, bounds: dict[type, Any]) -> st.SearchStrategy[Any]:
    if MinLen in bounds:
        return st.lists(values_of(get_args(kind)[0]), min_size=bounds[MinLen].min_length, max_size=2).map(tuple)
    low, high = bounds.get(Ge), bounds.get(Le)
    above, below = bounds.get(Gt), bounds.get(Lt)
    least = low.ge if low else above.gt if above else None
    most = high.le if high else below.lt if below else None
    choices = []
    for plain in get_args(kind) if get_origin(kind) in {Union, types.UnionType} else (kind,):
        if least is None and most is None:
            pattern = next((item.pattern for item in bounds.values() if getattr(item, "pattern", None)), None)
            spelled = st.from_regex(pattern, fullmatch=True, alphabet=st.characters(codec="utf-8")) if pattern else None
            choices.append(spelled if plain is str and spelled is not None else values_of(plain))
        elif plain is int:
            choices.append(st.integers(least, most))
        elif plain is float:
            choices.append(st.floats(least, most, exclude_min=above is not None, exclude_max=below is not None))
        else:
            choices.append(values_of(plain))
    return st.one_of(*choices)


OPENINGS: st.SearchStrategy[CampaignOpened] = values_of(CampaignOpened)
EVENTS: st.SearchStrategy[Event] = st.one_of(*(values_of(kind) for kind in get_args(Event)))
LATER_EVENTS: st.SearchStrategy[Event] = st.one_of(
    *(values_of(kind) for kind in get_args(Event) if kind is not CampaignOpened)
)
