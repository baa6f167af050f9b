"""Writes a campaign file with every key, its meaning and its value, from the specification's own types."""

from __future__ import annotations

import dataclasses
import json
import textwrap
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

from pydantic.fields import FieldInfo

from spectune.domain.spec import CampaignSpec

_HEADER = """\
# A spectune campaign: what to tune, what may be changed, what for, and how long.
#   spectune check FILE   tells what would happen, and starts nothing
#   spectune run FILE     does it; the same command goes on after an interruption
"""

_WIDTH = 110


def render(spec: CampaignSpec, about: Mapping[str, str] | None = None) -> str:
    """The commented file of a specification; parsing it gives the same specification back.

    Args:
        about: "service.args" and so on -> what to say of that key, in place of what is always said.
    """
    return _HEADER + "\n" + "\n".join(_fields(spec, 0, about or {})) + "\n"


def _fields(value: Any, depth: int, own: Mapping[str, str], path: str = "") -> list[str]:
    hints = typing.get_type_hints(type(value), include_extras=True)
    lines: list[str] = []
    after_section = False
    for field in dataclasses.fields(value):
        content = getattr(value, field.name)
        section = dataclasses.is_dataclass(content)
        about = own.get(f"{path}{field.name}") or _about(hints[field.name])
        about = about or ((type(content).__doc__ or "") if section else "")
        if lines and (section or after_section):
            lines.append("")
        after_section = section
        lines += _comment(about, depth)
        lines += _entry(field.name, content, depth, own, path)
    return lines


def _entry(key: str, content: Any, depth: int, own: Mapping[str, str], path: str) -> list[str]:
    pad = "  " * depth
    if dataclasses.is_dataclass(content):
        return [f"{pad}{key}:", *_fields(content, depth + 1, own, f"{path}{key}.")]
    if isinstance(content, tuple) and content and dataclasses.is_dataclass(content[0]):
        lines = [f"{pad}{key}:"]
        for number, item in enumerate(content):
            inner = _fields(item, depth + 2, own, f"{path}{key}.") if number == 0 else _bare(item, depth + 2)
            first = next(i for i, line in enumerate(inner) if not line.lstrip().startswith("#"))
            inner[first] = inner[first][: 2 * depth + 2] + "- " + inner[first][2 * depth + 4 :]
            lines += inner
        return lines
    if isinstance(content, Mapping) and content:
        return [f"{pad}{key}:", *(f"{pad}  {_scalar(name)}: {_scalar(item)}" for name, item in content.items())]
    return [f"{pad}{key}: {_scalar(content)}"]


def _bare(item: Any, depth: int) -> list[str]:
    """A later item of a list: only what differs from the defaults, without comments."""
    lines: list[str] = []
    for field in dataclasses.fields(item):
        content = getattr(item, field.name)
        default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        if content != default:
            lines += _entry(field.name, content, depth, {}, "")
    return lines


def _about(hint: Any) -> str:
    metadata = getattr(hint, "__metadata__", ())
    return next((m.description for m in metadata if isinstance(m, FieldInfo) and m.description), "")


def _comment(text: str, depth: int) -> list[str]:
    pad = "  " * depth
    return [f"{pad}# {line}" for line in textwrap.wrap(" ".join(text.split()), _WIDTH - len(pad))]


def _scalar(value: Any) -> str:
    """YAML in its JSON form, plain words left bare where YAML reads them back as the same word."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_scalar, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(k)}: {_scalar(v)}" for k, v in value.items()) + "}"
    if isinstance(value, str) and _plain(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _plain(text: str) -> bool:
    words = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
    safe = all(char.isalnum() or char in "-_./" for char in text)
    return bool(text) and text[0].isalpha() and safe and text.lower() not in words
